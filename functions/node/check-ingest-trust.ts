import { readFileSync } from "node:fs";
import { equalBytes } from "../../kit/bytes.ts";
import { ConfigError } from "../../kit/env.ts";
import { type Authority, hasIssued, readAuthorities } from "../signer/authority.ts";
import type { Cryptography } from "../signer/cryptography.ts";
import { withConfigError } from "./with-config-error.ts";

/**
 * Fails the start when the ingest listener would refuse every certificate that core issues: a signing CA must be in
 * `SVC_INGEST_CLIENT_CA_FILE` or be issued by one that is (contract, section 4). Throws `ConfigError`.
 */
export const checkIngestTrust = async (
  clientCaFile: string,
  signing: readonly Authority[],
  cryptography: Cryptography,
): Promise<void> => {
  const variable = "SVC_INGEST_CLIENT_CA_FILE";
  const trusted = await withConfigError(variable, () => readAuthorities(readFileSync(clientCaFile, "utf8")));
  for (const authority of signing) {
    for (const anchor of trusted) {
      if (equalBytes(anchor.der, authority.der) || (await hasIssued(anchor, authority, cryptography))) return;
    }
  }
  throw new ConfigError([{ variable, message: "trusts no certificate that the enrollment signer issues" }]);
};
