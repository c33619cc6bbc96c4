import { readFileSync } from "node:fs";
import { type Authority, readAuthorities } from "../signer/authority.ts";
import type { Cryptography } from "../signer/cryptography.ts";
import { createLocalCa } from "../signer/local-ca.ts";
import type { Signer } from "../signer/signer.ts";
import { createNodeSigningKey } from "./node-cryptography.ts";
import { readKeyFile } from "./read-key-file.ts";

/**
 * The local CA of a certificate file and a key file, and all authorities of the first. Throws with a message for the operator, free
 * of file contents, if a file cannot be read, the key is open to others, the pair does not match, or a certificate may not sign.
 */
export const loadLocalCa = async (options: {
  certificateFile: string;
  keyFile: string;
  cryptography: Cryptography;
}): Promise<{ signer: Signer; authorities: readonly Authority[] }> => {
  const authorities = readAuthorities(readFileSync(options.certificateFile, "utf8"));
  const key = createNodeSigningKey(readKeyFile(options.keyFile));
  const signer = await createLocalCa({ authorities, key, cryptography: options.cryptography });
  return { signer, authorities };
};
