import { rfc3339 } from "../../kit/clock.ts";
import type { Labels } from "../../proto/labels.ts";
import type { HeartbeatReport } from "../../proto/management/heartbeat.ts";
import { cutText } from "../../proto/management/text.ts";
import type { RenewalReport } from "../renewal/renewals.ts";

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
  runningConfigHash: string | null;
  desiredConfigHash: string | undefined;
  lastKnownGoodConfigHash: string | undefined;
  applyDesiredConfig: boolean;
  labels: Labels;
}

/** Returns the resident memory of this process, and its CPU time since its start. */
export interface ProcessUsage {
  rssBytes: number;
  cpuMs: number;
}

/** Measures this process. */
export const measureUsage = (): ProcessUsage => {
  const { user, system } = process.cpuUsage();
  return { rssBytes: process.memoryUsage.rss(), cpuMs: Math.round((user + system) / 1000) };
};

/** The part of a heartbeat that changes. */
export interface Figures {
  config: ConfigReport;
  queue: {
    records: number;
    bytes: number;
    maxBytes: number;
    oldestRecordAgeSeconds: number | null;
    droppedRecordsTotal: number;
    deadLetters: number;
    forks: number;
    fileGaps: number;
    fileGapBytes: number;
    atRisk: boolean;
  };
  usage: ProcessUsage;
  forwarder: { connected: boolean; lastAckAt: number | null; lastError: string | null };
  renewal: RenewalReport;
}

const freeTextMax = 500;
const configErrorsMax = 20;
const freeText = (text: string) => cutText(text.toWellFormed(), freeTextMax);
const time = (ms: number | null) => (ms === null ? null : rfc3339(ms));

/** Composes the body of a heartbeat (docs/api.md), without `sent_at` and `proof`. */
export const composeHeartbeat = (facts: ProcessFacts, figures: Figures): HeartbeatReport => {
  const { config, queue, usage, forwarder, renewal } = figures;
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
      errors: config.errors.slice(0, configErrorsMax).map(freeText),
      running_config_hash: config.runningConfigHash,
      ...(desiredConfigHash === undefined ? {} : { desired_config_hash: desiredConfigHash }),
      ...(lastKnownGoodConfigHash === undefined ? {} : { last_known_good_config_hash: lastKnownGoodConfigHash }),
      apply_desired_config: config.applyDesiredConfig,
    },
    queue: queueReport(queue),
    process: { rss_bytes: usage.rssBytes, cpu_ms: usage.cpuMs },
    forwarder: {
      connected: forwarder.connected,
      last_ack_at: time(forwarder.lastAckAt),
      last_error: forwarder.lastError === null ? null : freeText(forwarder.lastError),
    },
    renewal: {
      status: renewal.status,
      last_attempt_at: time(renewal.lastAttemptAt),
      next_attempt_at: time(renewal.nextAttemptAt),
      last_error: renewal.lastError === null ? null : freeText(renewal.lastError),
    },
    ...(Object.keys(config.labels).length === 0 ? {} : { labels: config.labels }),
  };
};

/** Returns the queue's figures as heartbeat and status report them. */
export const queueReport = (queue: Figures["queue"]) => ({
  records: queue.records,
  bytes: queue.bytes,
  max_bytes: queue.maxBytes,
  oldest_record_age_seconds: queue.oldestRecordAgeSeconds,
  dropped_records_total: queue.droppedRecordsTotal,
  dead_letters: queue.deadLetters,
  forks_total: queue.forks,
  file_gaps_total: queue.fileGaps,
  file_gap_bytes_total: queue.fileGapBytes,
  at_risk: queue.atRisk,
});
