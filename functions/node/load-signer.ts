import type { Clock } from "#kit/clock.ts";
import type { Log } from "#kit/log.ts";
import type { SignerConfig } from "../config/core-config.ts";
import { type Authority, readAuthorities } from "../signer/authority.ts";
import type { Cryptography } from "../signer/cryptography.ts";
import { createExternalCommand } from "../signer/external-command.ts";
import { createLocalCa } from "../signer/local-ca.ts";
import type { Signer } from "../signer/signer.ts";
import { createNodeSigningKey } from "./node-cryptography.ts";
import { readKeyFile, readTrustedFile } from "./read-key-file.ts";
import { createSignerCommand } from "./run-signer-command.ts";
import { withConfigError } from "./with-config-error.ts";

/** A signer and the bundle that its certificates are verified against. */
interface LoadedSigner {
  signer: Signer;
  authorities: readonly Authority[];
}

/** The parts of core that signers use, and the PATH of an external one. */
export interface SignerNeeds {
  cryptography: Cryptography;
  clock: Pick<Clock, "now">;
  log: Pick<Log, "warn">;
  path: string;
}

/**
 * Returns a function that loads the configured signer from its files, each time it is called. An external command is created once, so
 * that its limits hold across reloads. Both throw `ConfigError` with the variable; the message quotes no file.
 */
export const signerLoader = async (
  config: SignerConfig,
  needs: SignerNeeds,
): Promise<() => Promise<LoadedSigner>> => {
  const { cryptography, clock, log, path } = needs;
  const readBundle = () =>
    withConfigError("SVC_ENROLLMENT_CA_CERT_FILE", () =>
      readAuthorities(readTrustedFile(config.caCertFile).toString("utf8")),
    );
  if (config.kind === "local-ca") {
    const files = { certificateFile: config.caCertFile, keyFile: config.caKeyFile };
    return async () => {
      await readBundle();
      return withConfigError("SVC_ENROLLMENT_CA_KEY_FILE", () =>
        loadLocalCa({ ...files, cryptography }),
      );
    };
  }
  const command = await withConfigError("SVC_ENROLLMENT_SIGNER_COMMAND", () =>
    createSignerCommand({ command: config.command, path, log }),
  );
  return async () => {
    const authorities = await readBundle();
    return {
      signer: createExternalCommand({ command, authorities, cryptography, clock }),
      authorities,
    };
  };
};

/**
 * Loads the local CA of a certificate file and a key file. Throws an error for the operator, which quotes no file, if one cannot be
 * read, if the key is open to others or does not match, or if a certificate may not sign certificates.
 */
export const loadLocalCa = async (options: {
  certificateFile: string;
  keyFile: string;
  cryptography: Cryptography;
}): Promise<LoadedSigner> => {
  const authorities = readAuthorities(readTrustedFile(options.certificateFile).toString("utf8"));
  const key = createNodeSigningKey(readKeyFile(options.keyFile));
  return {
    signer: await createLocalCa({ authorities, key, cryptography: options.cryptography }),
    authorities,
  };
};
