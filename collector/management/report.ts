import { rfc3339 } from "../../functions/kit/clock.ts";
import type { CollectorConfig } from "../../proto/collector-config/parse.ts";
import type { HeartbeatReport } from "../../proto/management/heartbeat.ts";
import { cutText } from "../../proto/management/text.ts";

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

/** What a heartbeat tells of this moment. */
export interface Figures {
  config: CollectorConfig;
  runningConfigHash: string | null;
  queue: {
    records: number;
    bytes: number;
    maxBytes: number;
    oldestRecordAgeSeconds: number | null;
    droppedRecordsTotal: number;
    atRisk: boolean;
  };
  forwarder: { connected: boolean; lastAckAt: number | null; lastError: string | null };
}

const freeTextMax = 500;

/** A heartbeat's body before `sent_at` and `proof` (contract §4). */
export const composeReport = (facts: ProcessFacts, figures: Figures): HeartbeatReport => {
  const { config, queue, forwarder } = figures;
  const { desiredConfigHash, lastKnownGoodConfigHash } = config.management;
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
      valid: true, // a collector does not start on an invalid config
      errors: [],
      running_config_hash: figures.runningConfigHash,
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
      last_ack_at: forwarder.lastAckAt === null ? null : rfc3339(forwarder.lastAckAt),
      last_error: forwarder.lastError === null ? null : cutText(forwarder.lastError.toWellFormed(), freeTextMax),
    },
    // This version renews by the `renew` command alone.
    renewal: { status: "not_configured", last_attempt_at: null, next_attempt_at: null, last_error: null },
  };
};
