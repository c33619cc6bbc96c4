import { readFileSync } from "node:fs";
import type { Clock } from "../../kit/clock.ts";
import type { Log } from "../../kit/log.ts";
import type { SignerConfig } from "../config.ts";
import { type Authority, readAuthorities } from "../signer/authority.ts";
import type { Cryptography } from "../signer/cryptography.ts";
import { createExternalCommand } from "../signer/external-command.ts";
import type { Signer } from "../signer/signer.ts";
import { loadLocalCa } from "./load-local-ca.ts";
import { createSignerCommand } from "./run-signer-command.ts";
import { withConfigError } from "./with-config-error.ts";

/** A signer and the bundle that its certificates are verified against. */
export interface LoadedSigner {
  signer: Signer;
  authorities: readonly Authority[];
}

/** What signers need of core, and the PATH that an external one gets. */
export interface SignerNeeds {
  cryptography: Cryptography;
  clock: Pick<Clock, "now">;
  log: Pick<Log, "warn">;
  path: string;
}

/**
 * What loads the signer of a configuration from its files, as often as they change; an external command is made once, so that its
 * limits hold across reloads. Throws `ConfigError` naming the variable, as the loader does; file contents stay out of the message.
 */
export const signerLoader = async (config: SignerConfig, needs: SignerNeeds): Promise<() => Promise<LoadedSigner>> => {
  const { cryptography, clock, log, path } = needs;
  const readBundle = () =>
    withConfigError("SVC_ENROLLMENT_CA_CERT_FILE", () => readAuthorities(readFileSync(config.caCertFile, "utf8")));
  if (config.kind === "local-ca") {
    const files = { certificateFile: config.caCertFile, keyFile: config.caKeyFile };
    return async () => {
      await readBundle();
      return withConfigError("SVC_ENROLLMENT_CA_KEY_FILE", () => loadLocalCa({ ...files, cryptography }));
    };
  }
  const command = await withConfigError("SVC_ENROLLMENT_SIGNER_COMMAND", () =>
    createSignerCommand({ command: config.command, path, log }),
  );
  return async () => {
    const authorities = await readBundle();
    return { signer: createExternalCommand({ command, authorities, cryptography, clock }), authorities };
  };
};
