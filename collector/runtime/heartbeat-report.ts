import { rfc3339 } from "#kit/clock.ts";
import type { Labels } from "#proto/labels.ts";
import {
  type HeartbeatReport,
  type ReportedCondition,
  warningPrefix,
} from "#proto/management/heartbeat.ts";
import { cutText } from "#proto/values.ts";
import type { ProcessUsage } from "../forward/messages.ts";
import { type QueueStats, queueReport } from "../queue/stats.ts";
import type { RenewalReport } from "../renewal/renewals.ts";
import { describeWarning, type SourceWarning } from "../sources/source.ts";

/** The part of a heartbeat that is constant for this process. */
export interface ProcessFacts {
  /** Random for each process. */
  bootId: string;
  version: string;
  commit: string;
  hostname: string;
  platform: string;
  /** Milliseconds since the epoch. */
  startedAt: number;
}

/** The running config, compared with the file on disk and with the desired config. */
export interface ConfigReport {
  /** False while the config on disk cannot run and the previous one stays in effect. */
  valid: boolean;
  /** The errors of the file, or why a desired config is not applied. */
  errors: readonly string[];
  /** The warnings of its CA bundles and sources. */
  warnings: readonly SourceWarning[];
  caBundles: NonNullable<HeartbeatReport["ca_bundles"]>;
  runningConfigHash: string | null;
  desiredConfigHash: string | undefined;
  lastKnownGoodConfigHash: string | undefined;
  applyDesiredConfig: boolean;
  labels: Labels;
}

/** Measures this process. */
export const measureUsage = (): ProcessUsage => {
  const { user, system } = process.cpuUsage();
  return { rss_bytes: process.memoryUsage.rss(), cpu_ms: Math.round((user + system) / 1000) };
};

/** The part of a heartbeat that changes. */
interface Figures extends SessionFigures {
  config: ConfigReport;
  queue: QueueStats;
  usage: ProcessUsage;
  conditions: readonly ReportedCondition[];
}

interface SessionFigures {
  forwarder: { connected: boolean; lastAckAt: number | null; lastError: string | null };
  renewal: RenewalReport;
}

const freeTextMax = 500;
/** The most errors that core stores. */
const configErrorsMax = 20;

/** Returns the errors and then the warnings, with how many are left out. */
const listErrors = ({ errors, warnings }: ConfigReport): string[] => {
  const all = [
    ...errors,
    ...warnings
      .filter(({ level }) => level === "warning")
      .map((warning) => `${warningPrefix}${describeWarning(warning)}`),
  ];
  if (all.length <= configErrorsMax) return all;
  const kept = all.slice(0, configErrorsMax - 1);
  return [...kept, `${warningPrefix}${all.length - kept.length} more, see svc-collector status`];
};

const freeText = (text: string) => cutText(text.toWellFormed(), freeTextMax);

/** Returns a time as RFC 3339. */
export const timeOrNull = (ms: number | null): string | null => (ms === null ? null : rfc3339(ms));

/** Reports a session, each error as `textOf` returns it. */
export const reportOfSession = (
  { forwarder, renewal }: SessionFigures,
  textOf = (error: string) => error,
) => ({
  forwarder: {
    connected: forwarder.connected,
    last_ack_at: timeOrNull(forwarder.lastAckAt),
    last_error: forwarder.lastError && textOf(forwarder.lastError),
  },
  renewal: {
    status: renewal.status,
    last_attempt_at: timeOrNull(renewal.lastAttemptAt),
    next_attempt_at: timeOrNull(renewal.nextAttemptAt),
    last_error: renewal.lastError && textOf(renewal.lastError),
  },
});

/** Composes the body of a heartbeat (docs/api.md), without `sent_at` and `proof`. */
export const composeHeartbeat = (facts: ProcessFacts, figures: Figures): HeartbeatReport => {
  const { config, queue, usage, conditions } = figures;
  const { desiredConfigHash, lastKnownGoodConfigHash } = config;
  return {
    boot_id: facts.bootId,
    collector: {
      version: facts.version,
      commit: facts.commit,
      hostname: cutText(facts.hostname, 253) || "unknown",
      platform: facts.platform,
      started_at: rfc3339(facts.startedAt),
    },
    config: {
      valid: config.valid,
      errors: listErrors(config).map(freeText),
      running_config_hash: config.runningConfigHash,
      ...(desiredConfigHash === undefined ? {} : { desired_config_hash: desiredConfigHash }),
      ...(lastKnownGoodConfigHash === undefined
        ? {}
        : { last_known_good_config_hash: lastKnownGoodConfigHash }),
      apply_desired_config: config.applyDesiredConfig,
    },
    queue: queueReport(queue, conditions),
    conditions: [...conditions],
    process: usage,
    ca_bundles: config.caBundles,
    ...reportOfSession(figures, freeText),
    ...(Object.keys(config.labels).length === 0 ? {} : { labels: config.labels }),
  };
};
