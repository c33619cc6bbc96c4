import { join } from "node:path";
import { type LoadedConfig, loadConfig } from "../config/load-config.ts";
import type { CollectorEnv } from "../env.ts";
import type { Credentials } from "../identity/credentials.ts";
import type { IdentityDirectory } from "../identity/identity-directory.ts";
import { callRenew } from "../management/calls.ts";
import { createSentAt } from "../management/sent-at.ts";
import type { TransportOptions } from "../management/transport.ts";
import { version } from "../version.ts";

/** Core may wait 30 s for an external signer. */
export const renewTimeoutMs = 45_000;

/** The config does not validate with the new pair, and did with the old one; that is in use again. */
export class PairRefusedByConfigError extends Error {
  override readonly name = "PairRefusedByConfigError";
  readonly errors: LoadedConfig["errors"];

  constructor(errors: LoadedConfig["errors"]) {
    super("the config does not validate with the new pair; the old one is in use again");
    this.errors = errors;
  }
}

/** One renewal. */
export interface Renewal {
  /** Of the config that names the pair. */
  configPath: string;
  directory: IdentityDirectory;
  /** What this process runs with; if another pair is in use on disk meanwhile, nothing is done. */
  inUse: Credentials;
  transport: TransportOptions;
  env: Pick<CollectorEnv, "clock" | "entropy" | "effectiveUid">;
  /** Makes the call, and may repeat it: the same request is answered with the same certificate. */
  repeat?: <Result>(call: () => Promise<Result>) => Promise<Result>;
  signal?: AbortSignal;
}

/**
 * Replaces the pair in use (contract §8): a fresh key, on disk before its request, a certificate for it by the current pair over
 * mutual TLS, and both put in use as one step. Gives the pair that is in use then. Whatever is thrown (`ManagementError`,
 * `CredentialsError`, `IdentityLockedError`, `PairRefusedByConfigError`, or what the disk says), a whole pair is in use.
 */
export const renewPair = (renewal: Renewal): Promise<Credentials> => {
  const { configPath, directory, inUse, transport, env, signal, repeat = (call) => call() } = renewal;
  return directory.locked(async () => {
    const pair = (await directory.current()) ?? inUse;
    if (pair.fingerprintSha256 !== inUse.fingerprintSha256) return pair;
    const before = await loadConfig(configPath, env);
    const sentAt = createSentAt(join(directory.path, "sent-at.renew"), env);
    const request = await directory.prepare({
      purpose: "renew",
      identity: pair.identity,
      certificateSha256: pair.fingerprintSha256,
    });
    const caller = { pair, sentAt, ...(signal === undefined ? {} : { signal }) };
    const issued = await repeat(() =>
      callRenew(transport, caller, { csr_pem: request.csrPem, collector_version: version }),
    );
    const { checkIssued } = await import("../identity/request-certificate.ts");
    return directory.install({
      purpose: "renew",
      certificatePem: await checkIssued(issued, pair.identity),
      renewAfter: issued.renew_after,
      accept: async () => {
        const after = await loadConfig(configPath, env);
        // A config that was broken before says nothing about the pair: a mistake in it must not let the certificate expire.
        if (before.errors.length === 0 && after.errors.length > 0) throw new PairRefusedByConfigError(after.errors);
      },
    });
  });
};
