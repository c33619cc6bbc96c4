import { readFileSync } from "node:fs";
import type { SignerConfig } from "../config.ts";
import type { Log } from "../core.ts";
import type { Clock } from "../kit/clock.ts";
import { ConfigError } from "../kit/env.ts";
import { type Authority, readAuthorities } from "../signer/authority.ts";
import type { Cryptography } from "../signer/cryptography.ts";
import { createExternalCommand } from "../signer/external-command.ts";
import type { Signer } from "../signer/signer.ts";
import { loadLocalCa } from "./load-local-ca.ts";
import { createSignerCommand } from "./run-signer-command.ts";

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

/** The signer of a configuration. Throws `ConfigError` naming the variable; file contents stay out of the message. */
export const loadSigner = async (config: SignerConfig, needs: SignerNeeds): Promise<LoadedSigner> => {
  const { cryptography, clock, log, path } = needs;
  const { caCertFile } = config;
  const authorities = await blaming("SVC_ENROLLMENT_CA_CERT_FILE", () =>
    readAuthorities(readFileSync(caCertFile, "utf8")),
  );
  if (config.kind === "local-ca") {
    const files = { certificateFile: caCertFile, keyFile: config.caKeyFile };
    return blaming("SVC_ENROLLMENT_CA_KEY_FILE", () => loadLocalCa({ ...files, cryptography }));
  }
  const command = await blaming("SVC_ENROLLMENT_SIGNER_COMMAND", () =>
    createSignerCommand({ command: config.command, path, log }),
  );
  return { signer: createExternalCommand({ command, authorities, cryptography, clock }), authorities };
};

const blaming = async <Result>(variable: string, load: () => Result | Promise<Result>): Promise<Result> => {
  try {
    return await load();
  } catch (cause) {
    const message = cause instanceof Error ? cause.message : "cannot be loaded";
    throw new ConfigError([{ variable, message }]);
  }
};
