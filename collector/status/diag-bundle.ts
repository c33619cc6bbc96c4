import { rfc3339 } from "#kit/clock.ts";
import type { CollectorConfig } from "#proto/collector-config/parse.ts";
import type { LoadedConfig } from "../config/load-config.ts";
import { describeRoutes } from "../connect/proxy.ts";
import type { CollectorEnv } from "../env.ts";
import { describeTrust } from "../identity/channel-trust.ts";
import { describeCertificate } from "../identity/credentials.ts";
import { readCommit, version } from "../version.ts";

const redactions = [
  "private keys and the paths of key, certificate and CA files are left out",
  "tokens and credentials of a proxy are left out",
  "telemetry, queue content and dead letters are left out; only counts are given",
  "config values other than those shown are left out",
];

/** Composes the diagnostics of a config and of the collector that runs with it, if any: field by field from an allow list. */
export const composeDiagBundle = async (
  loaded: LoadedConfig,
  env: Pick<CollectorEnv, "clock" | "variables">,
): Promise<object> => {
  const { errors, runningConfigHash, config, certificate, trust } = loaded;
  const stats = config ? await readStats(config, env) : null;
  return {
    version,
    commit: readCommit(),
    generated_at: rfc3339(env.clock.now()),
    validation: { ok: errors.length === 0, errors },
    config: {
      running_config_hash: runningConfigHash,
      desired_config_hash: config?.management.desiredConfigHash ?? null,
      last_known_good_config_hash: config?.management.lastKnownGoodConfigHash ?? null,
    },
    labels: config?.labels ?? null,
    forwarder: config
      ? {
          endpoint: config.forwarder.endpoint,
          server_name: config.forwarder.mtls.serverName ?? null,
        }
      : null,
    routes: config ? describeRoutes(config, env.variables) : null,
    trust: describeTrust(trust),
    certificate: certificate ? publicCertificate(certificate) : null,
    running: config ? await readRunning(config) : null,
    queue: stats?.report ?? null,
    quarantine: stats && {
      files: stats.quarantined,
      records: stats.quarantinedRecords,
      lost_records: stats.lostRecords,
    },
    redactions,
  };
};

const publicCertificate = ({
  certificate,
  identity,
}: NonNullable<LoadedConfig["certificate"]>) => ({
  identity,
  ...describeCertificate(certificate),
  issuer: certificate.issuer.replaceAll("\n", ", "),
});

/** Returns the connection state of the collector that runs with this config; null if none runs. */
const readRunning = async ({ buffer }: CollectorConfig) => {
  const { fetchStatus } = await import("./fetch-status.ts");
  try {
    const { forwarder, heartbeat, renewal, identity } = await fetchStatus(buffer.dir);
    const { connected, last_ack_at, last_error } = forwarder;
    return { identity, forwarder: { connected, last_ack_at, last_error }, heartbeat, renewal };
  } catch {
    return null; // none runs, or not as this user
  }
};

const readStats = async (config: CollectorConfig, { clock }: Pick<CollectorEnv, "clock">) => {
  const { queueReport, readQueueStats } = await import("../queue/stats.ts");
  try {
    const stats = readQueueStats(config.buffer.dir, { ...config.buffer, clock });
    return stats && { ...stats, report: queueReport(stats) };
  } catch {
    return null; // a corrupt queue, or one that is being created, must not prevent the rest of the bundle
  }
};
