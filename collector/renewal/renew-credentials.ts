import { join } from "node:path";
import { type LoadedConfig, loadConfig } from "../config/load-config.ts";
import type { CollectorEnv } from "../env.ts";
import type { Credentials } from "../identity/credentials.ts";
import type { IdentityDirectory } from "../identity/identity-directory.ts";
import { callRenew } from "../management/calls.ts";
import { createSentAt } from "../management/signed-request.ts";
import type { TransportOptions } from "../management/transport.ts";
import { version } from "../version.ts";

/** The timeout of a renewal: longer than the 30 s that core may wait for an external signer. */
export const renewTimeoutMs = 45_000;

/** The config was valid with the old credentials and is not with the new ones. The old ones have been restored. */
export class CredentialsRejectedByConfigError extends Error {
  override readonly name = "CredentialsRejectedByConfigError";
  /** The config with the new ones. */
  readonly loaded: LoadedConfig;

  constructor(loaded: LoadedConfig) {
    super("the config does not validate with the new credentials; rolled back to the old ones");
    this.loaded = loaded;
  }
}

/** The parameters and dependencies of a renewal. */
interface Renewal {
  /** The config that names the credentials. */
  configPath: string;
  directory: IdentityDirectory;
  /** The credentials that this process uses. If others are current on disk, the renewal returns those and does nothing. */
  inUse: Credentials;
  transport: TransportOptions;
  env: Pick<CollectorEnv, "clock" | "entropy" | "effectiveUid">;
  /** Makes the call, and may retry it: core answers the same request with the same certificate. */
  retry?: <Result>(call: () => Promise<Result>) => Promise<Result>;
  signal?: AbortSignal;
}

/**
 * Replaces the credentials in use: writes a fresh key to disk, requests a certificate for it with the current credentials, and installs
 * both in one step. Returns the credentials that are then current. Throws `ManagementError`, `CredentialsError`, `IdentityLockedError`,
 * `CredentialsRejectedByConfigError` or an error of the file system; complete credentials are installed even then.
 */
export const renewCredentials = (renewal: Renewal): Promise<Credentials> => {
  const {
    configPath,
    directory,
    inUse,
    transport,
    env,
    signal,
    retry = (call) => call(),
  } = renewal;
  return directory.locked(async () => {
    const credentials = (await directory.current()) ?? inUse;
    if (credentials.fingerprintSha256 !== inUse.fingerprintSha256) return credentials;
    const before = await loadConfig(configPath, env);
    const sentAt = createSentAt(join(directory.path, "sent-at.renew"), env);
    const request = await directory.prepare({
      purpose: "renew",
      identity: credentials.identity,
      certificateSha256: credentials.fingerprintSha256,
    });
    const caller = { credentials, sentAt, ...(signal === undefined ? {} : { signal }) };
    const issued = await retry(() =>
      callRenew(transport, caller, { csr_pem: request.csrPem, collector_version: version }),
    );
    const { checkIssued } = await import("../identity/request-certificate.ts");
    return directory.install({
      purpose: "renew",
      certificatePem: await checkIssued(issued, credentials.identity),
      renewAfter: issued.renew_after,
      accept: async () => {
        const after = await loadConfig(configPath, env);
        // A config that was already invalid must not prevent the renewal.
        if (before.errors.length === 0 && after.errors.length > 0)
          throw new CredentialsRejectedByConfigError(after);
      },
    });
  });
};
