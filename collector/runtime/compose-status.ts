import { rfc3339 } from "#kit/clock.ts";
import type { Environment } from "#kit/env.ts";
import type { ReportedCondition } from "#proto/management/heartbeat.ts";
import type { UsableConfig } from "../config/load-config.ts";
import { describeRoutes } from "../connect/proxy.ts";
import { describeTrust } from "../identity/channel-trust.ts";
import { describeCertificate } from "../identity/credentials.ts";
import { type QueueStats, queueReport } from "../queue/stats.ts";
import { renewalNotConfigured } from "../renewal/renewals.ts";
import type { Source } from "../sources/source.ts";
import type { CollectorStatus } from "../status/fetch-status.ts";
import type { BundleTries } from "./bundle-renewal.ts";
import type { CoreSession } from "./core-session.ts";
import {
  type ConfigReport,
  type ProcessFacts,
  reportOfSession,
  timeOrNull,
} from "./heartbeat-report.ts";

interface StatusParts {
  now: number;
  variables: Environment;
  facts: ProcessFacts;
  loaded: UsableConfig;
  report: ConfigReport;
  bundleTries: BundleTries;
  queue: QueueStats;
  /** Undefined while a reload replaces the session. */
  session: CoreSession | undefined;
  sources: readonly Source[];
  conditions: readonly ReportedCondition[];
}

/** Composes the status of a running collector, field by field. */
export const composeStatus = (parts: StatusParts): CollectorStatus => {
  const { facts, loaded, report, queue, session, conditions } = parts;
  const { credentials, config } = loaded;
  const reported = reportOfSession({
    forwarder: session?.forwarder() ?? { connected: false, lastAckAt: null, lastError: null },
    renewal: session?.renewal() ?? renewalNotConfigured,
  });
  const heartbeat = session?.heartbeat();
  return {
    version: facts.version,
    commit: facts.commit,
    pid: process.pid,
    started_at: rfc3339(facts.startedAt),
    now: rfc3339(parts.now),
    identity: credentials.identity,
    labels: report.labels,
    config: {
      valid: report.valid,
      errors: [...report.errors],
      running_config_hash: report.runningConfigHash,
      desired_config_hash: report.desiredConfigHash ?? null,
      last_known_good_config_hash: report.lastKnownGoodConfigHash ?? null,
    },
    queue: queueReport(queue, conditions),
    conditions: [...conditions],
    quarantine: {
      files: queue.quarantined,
      records: queue.quarantinedRecords,
      lost_records: queue.lostRecords,
    },
    forwarder: { endpoint: config.forwarder.endpoint, ...reported.forwarder },
    routes: describeRoutes(config, parts.variables),
    trust: describeTrust(loaded.trust, (channel) => parts.bundleTries.get(channel)?.refusal),
    heartbeat: heartbeat
      ? { last_success_at: timeOrNull(heartbeat.lastSuccessAt), last_error: heartbeat.lastError }
      : null,
    certificate: describeCertificate(credentials.certificate),
    renewal: reported.renewal,
    sources: parts.sources.map(({ name, counters, warnings }) => ({
      name,
      counters: { ...counters?.() },
      warnings: [...(warnings?.() ?? [])],
    })),
  };
};
