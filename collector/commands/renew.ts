import { readFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { decodePemBundle } from "../../proto/pem.ts";
import { defaultConfigPath, inspectConfig, type UsableInspection } from "../config/inspect.ts";
import type { CollectorEnv } from "../env.ts";
import { checkIssued } from "../identity/check-issued.ts";
import { openIdentityDirectory, pairFiles } from "../identity/identity-directory.ts";
import { callRenew } from "../management/calls.ts";
import { repeatCall } from "../management/repeat.ts";
import { createSentAt } from "../management/sent-at.ts";
import type { TransportOptions } from "../management/transport.ts";
import { version } from "../version.ts";
import { CommandFailure, defineCommand, exitCode, usageFailure } from "./command.ts";
import { asCommandFailure } from "./core-failure.ts";
import { readCoreUrl } from "./enroll-options.ts";
import { configFailure, loadUsableConfig } from "./usable-config.ts";

/** Core may wait 30 s for an external signer. */
const timeoutMs = 45_000;

/**
 * `renew`: a fresh key, a certificate for it by the current pair over mutual TLS, and both put in use as one step; rolled back if
 * the config does not validate with them. Whatever fails, the pair that was in use still is. Safe to repeat, and beside `run`.
 */
export const renew = defineCommand({
  usage: `  --config <path>      the config (default ${defaultConfigPath})
  --core <https URL>   default management.core_url; core's ingest listener serves renewals too
  --ca-bundle <path>   authorities of that server (default management.ca_file, else the system's)
  --json               one JSON object on stdout
`,
  flags: { config: "text", core: "text", "ca-bundle": "text" },
  run: async (flags, env) => {
    const inspection = await loadUsableConfig(flags.config ?? defaultConfigPath, env);
    const transport = await chooseTransport(inspection, flags.core, flags["ca-bundle"]);
    const directoryPath = identityDirectoryOf(inspection);
    try {
      const pair = await replacePair(inspection, transport, directoryPath, env);
      return {
        exitCode: exitCode.done,
        lines: [
          `renewed; the new certificate is valid until ${pair.certificate.validToDate.toISOString()}`,
          "next: restart svc-collector run, so that it takes the new pair up",
        ],
        json: {
          ok: true,
          identity: pair.identity,
          certificate: {
            serial_number: pair.certificate.serialNumber.toLowerCase(),
            fingerprint_sha256: pair.fingerprintSha256,
            not_after: pair.certificate.validToDate.toISOString(),
          },
        },
      };
    } catch (error) {
      throw asCommandFailure(error);
    }
  },
});

const replacePair = async (
  { path, pair: inUse }: UsableInspection,
  transport: TransportOptions,
  directoryPath: string,
  env: CollectorEnv,
) => {
  const directory = openIdentityDirectory(directoryPath, env);
  return directory.locked(async () => {
    const pair = (await directory.current()) ?? inUse;
    const sentAt = createSentAt(join(directoryPath, "sent-at.renew"), env);
    const request = await directory.prepare({
      purpose: "renew",
      identity: pair.identity,
      certificateSha256: pair.fingerprintSha256,
    });
    const issued = await repeatCall(env.clock, () =>
      callRenew(transport, { pair, sentAt }, { csr_pem: request.csrPem, collector_version: version }),
    );
    const rollBack = await directory.install(checkIssued(issued, pair.identity));
    const after = await inspectConfig(path, env);
    if (after.errors.length === 0 && after.pair !== undefined) return after.pair;
    await rollBack();
    throw configFailure(after.errors);
  });
};

const chooseTransport = async (
  { config, coreCaPem }: UsableInspection,
  core: string | undefined,
  bundle: string | undefined,
): Promise<TransportOptions> => {
  const baseUrl = core === undefined ? config.management.coreUrl : readCoreUrl(core, false).coreUrl;
  if (baseUrl === undefined) throw usageFailure("--core is required, as the config has no management.core_url");
  const caPem = bundle === undefined ? coreCaPem : await readFile(bundle, "utf8").catch(() => undefined);
  if (bundle !== undefined && (decodePemBundle(caPem ?? "", "CERTIFICATE")?.length ?? 0) === 0)
    throw new CommandFailure(exitCode.failed, "file_unreadable", "the file of --ca-bundle holds no PEM certificate");
  // The name in the config is that of the server in the config.
  return { baseUrl, caPem, serverName: core === undefined ? config.management.serverName : undefined, timeoutMs };
};

/** The identity directory that the config's pair lives in, if it has the layout that `enroll` makes. */
const identityDirectoryOf = ({ config }: UsableInspection): string => {
  const { certFile, keyFile } = config.forwarder.mtls;
  const link = dirname(certFile);
  const known =
    basename(link) === "current" &&
    dirname(keyFile) === link &&
    basename(certFile) === pairFiles.certificate &&
    basename(keyFile) === pairFiles.key;
  if (known) return dirname(link);
  throw new CommandFailure(
    exitCode.failed,
    "identity_layout",
    "cert_file and key_file must be current/tls.crt and current/tls.key of one identity directory, as enroll lays it out: only there can both be replaced as one",
  );
};
