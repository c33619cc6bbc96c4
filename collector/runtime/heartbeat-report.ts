import { rfc3339 } from "../../kit/clock.ts";
import type { HeartbeatReport } from "../../proto/management/heartbeat.ts";
import { cutText } from "../../proto/management/text.ts";
import type { RenewalStatus } from "../renewal/renewals.ts";

/** What a heartbeat tells of this process; it does not change while it runs. */
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

/** How the running config stands to the file on disk and to what core wants. */
export interface ConfigReport {
  /** False while the file on disk cannot be run; the config of before runs on. */
  valid: boolean;
  /** What is wrong with the file, or why a desired config is not applied. */
  errors: readonly string[];
  runningConfigHash: string | null;
  desiredConfigHash: string | undefined;
  lastKnownGoodConfigHash: string | undefined;
}

/** What a heartbeat tells of this moment. */
export interface Figures {
  config: ConfigReport;
  queue: {
    records: number;
    bytes: number;
    maxBytes: number;
    oldestRecordAgeSeconds: number | null;
    droppedRecordsTotal: number;
    atRisk: boolean;
  };
  forwarder: { connected: boolean; lastAckAt: number | null; lastError: string | null };
  renewal: RenewalStatus;
}

const freeTextMax = 500;
const configErrorsMax = 20;
const freeText = (text: string) => cutText(text.toWellFormed(), freeTextMax);
const time = (ms: number | null) => (ms === null ? null : rfc3339(ms));

/** A heartbeat's body before `sent_at` and `proof` (contract §4). */
export const composeReport = (facts: ProcessFacts, figures: Figures): HeartbeatReport => {
  const { config, queue, forwarder, renewal } = figures;
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
    },
    queue: {
      records: queue.records,
      bytes: queue.bytes,
      max_bytes: queue.maxBytes,
      oldest_record_age_seconds: queue.oldestRecordAgeSeconds,
      dropped_records_total: queue.droppedRecordsTotal,
      at_risk: queue.atRisk,
    },
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
  };
};
