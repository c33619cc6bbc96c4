import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Secret } from "../../kit/secret.ts";
import type { CertificateIssued } from "../../proto/management/enroll.ts";
import { generateConfig } from "../config/generate.ts";
import { loadConfig } from "../config/load-config.ts";
import type { CollectorEnv } from "../env.ts";
import { makePrivateDirectory, writeDurably } from "../files/private-files.ts";
import { credentialFiles, type IdentityDirectory, openIdentityDirectory } from "../identity/identity-directory.ts";
import { callEnroll } from "../management/calls.ts";
import { retryCall } from "../management/retry-call.ts";
import { version } from "../version.ts";
import { defineCommand, type Outcome } from "./command.ts";
import { CommandFailure, exitCode } from "./command-failure.ts";
import { asCommandFailure, reportRetry } from "./core-failure.ts";
import { type EnrollOptions, enrollFlags, readEnrollOptions, readToken } from "./enroll-options.ts";
import { configFailure } from "./usable-config.ts";

/** Core may wait 30 s for an external signer. */
const timeoutMs = 45_000;

/**
 * `enroll`: makes a key on this host, gets a certificate for it with a bootstrap token, writes the config and validates it. Safe
 * to repeat at any point: the key is on disk before the request, an identity that is already there is kept and costs no token,
 * and a config that is already there is kept (`--force` replaces both; the config before is left beside it).
 */
export const enroll = defineCommand({
  usage: `  --core <https URL>            core's base URL, without /v1
  --ingest <host:port>          core's ingest listener
  --token-file <path>           the bootstrap token; delete the file afterwards
  --token-stdin                 or the bootstrap token on stdin
  --device-id <id>              this host's id under the prefix
  --identity-prefix <URI/>      an allowed prefix of the enrollment policy
  --ca-bundle <path>            authorities of core's certificate, and of ingest unless told
  --ingest-ca-bundle <path>     authorities of the ingest listener's certificate
  --allow-root-acknowledged I-UNDERSTAND-ROOT-MODE
                                needed when the collector will run as root
  --config-dir <path>           default /etc/svc-collector
  --data-dir <path>             default /var/lib/svc-collector, or data inside a given --config-dir
  --force                       replace an existing identity and config
  --insecure-loopback-http      allow http:// to a loopback address (development)
  --json                        one JSON object on stdout
`,
  flags: enrollFlags,
  run: async (flags, env, progress) => {
    const options = await readEnrollOptions(flags, env);
    const identityDirectory = openIdentityDirectory(options.paths.identity, env);
    try {
      await mkdir(options.paths.configDir, { recursive: true });
      return await identityDirectory.locked(async () => {
        const kept = await keptIdentity(identityDirectory, options, env);
        if (!kept) await obtainPair(identityDirectory, options, await readToken(flags, env), env, progress);
        const configKept = await writeFiles(options, env);
        return describe(options, env, { kept, configKept, tokenFile: flags["token-file"] !== undefined });
      });
    } catch (error) {
      throw asCommandFailure(error);
    }
  },
});

/** Whether the identity that is there is the one asked for, and stays. Another one is never replaced without `--force`. */
const keptIdentity = async (
  directory: IdentityDirectory,
  { identity, force }: EnrollOptions,
  { clock }: Pick<CollectorEnv, "clock">,
): Promise<boolean> => {
  if (force) return false;
  const pair = await directory.current();
  if (pair === undefined) return false;
  if (pair.certificate.validToDate.getTime() <= clock.now())
    throw new CommandFailure(
      exitCode.failed,
      "certificate_expired",
      "this host is enrolled, and its certificate has expired; --force enrolls it again",
    );
  if (pair.identity === identity) return true;
  throw new CommandFailure(
    exitCode.failed,
    "identity_exists",
    "this host is enrolled under another identity, which is kept; --force replaces it",
  );
};

const obtainPair = async (
  directory: IdentityDirectory,
  options: EnrollOptions,
  token: Secret,
  env: CollectorEnv,
  progress: (line: string) => void,
): Promise<void> => {
  const request = await directory.prepare({ purpose: "enroll", identity: options.identity, certificateSha256: "" });
  progress(`made a key on this host; asking ${options.coreUrl} for a certificate`);
  const call = () =>
    callEnroll({ baseUrl: options.coreUrl, caPem: options.coreCaPem, serverName: undefined, timeoutMs }, token, {
      csr_pem: request.csrPem,
      device_id: options.deviceId,
      ...(env.hostname === "" ? {} : { hostname: env.hostname }),
      platform: env.platform,
      collector_version: version,
    });
  const issued: CertificateIssued = await retryCall(env.clock, call, reportRetry(progress));
  const { checkIssued } = await import("../identity/request-certificate.ts");
  await directory.install({
    purpose: "enroll",
    certificatePem: await checkIssued(issued, options.identity),
    renewAfter: issued.renew_after,
  });
};

/** Writes bundles, data directory and config; gives whether a config that was there is kept. */
const writeFiles = async (options: EnrollOptions, env: CollectorEnv): Promise<boolean> => {
  const { paths, coreCaPem, ingestCaPem } = options;
  await makePrivateDirectory(paths.data);
  const existing = await readFile(paths.config, "utf8").catch(() => undefined);
  if (existing !== undefined && !options.force) return true;
  if (existing !== undefined) await writeDurably(`${paths.config}.before-enroll`, existing, env, 0o644);
  const managed = !options.insecure;
  if (coreCaPem !== undefined) await writeDurably(paths.coreCa, coreCaPem, env, 0o644);
  const shared = ingestCaPem === coreCaPem;
  if (!shared) await writeDurably(paths.ingestCa, ingestCaPem, env, 0o644);
  const text = generateConfig({
    endpoint: options.ingest,
    certFile: join(paths.identity, "current", credentialFiles.certificate),
    keyFile: join(paths.identity, "current", credentialFiles.key),
    ingestCaFile: shared ? paths.coreCa : paths.ingestCa,
    bufferDir: paths.data,
    coreUrl: managed ? options.coreUrl : undefined,
    coreCaFile: managed && coreCaPem !== undefined ? paths.coreCa : undefined,
    runAsRootAcknowledged: options.runAsRootAcknowledged,
  });
  await writeDurably(paths.config, text, env, 0o644);
  return false;
};

const describe = async (
  options: EnrollOptions,
  env: CollectorEnv,
  done: { kept: boolean; configKept: boolean; tokenFile: boolean },
): Promise<Outcome> => {
  const loaded = await loadConfig(options.paths.config, env);
  if (loaded.errors.length > 0) throw configFailure(loaded.errors);
  const next = [
    ...(done.tokenFile ? ["delete the token file"] : []),
    `start it: svc-collector run --config ${options.paths.config}`,
  ];
  return {
    exitCode: exitCode.done,
    lines: [
      done.kept ? `already enrolled as ${options.identity}; the identity is kept` : `enrolled as ${options.identity}`,
      ...(done.configKept ? ["a config was there and is kept; it is valid"] : []),
      ...next.map((step) => `next: ${step}`),
    ],
    json: {
      ok: true,
      identity: options.identity,
      identity_kept: done.kept,
      config_kept: done.configKept,
      config: options.paths.config,
      certificate: loaded.pair && {
        serial_number: loaded.pair.certificate.serialNumber.toLowerCase(),
        fingerprint_sha256: loaded.pair.fingerprintSha256,
        not_after: loaded.pair.certificate.validToDate.toISOString(),
      },
      next,
    },
  };
};
