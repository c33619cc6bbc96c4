import { existsSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import type { Clock } from "../../kit/clock.ts";
import { ageAt } from "./age.ts";
import { queueFiles } from "./files.ts";
import { checkFormat, type QueueState, readOldestAge, readState } from "./format.ts";

/** The bounds of a queue, and the thresholds at which it is at risk (docs/collector-config.md). */
export interface QueueLimits {
  maxDiskUsageBytes: number;
  maxRecordAgeSeconds: number;
  atRiskBytesPercent: number;
  atRiskOldestSeconds: number;
}

/** The figures of a queue. Its totals survive restarts. */
export interface QueueStats {
  records: number;
  bytes: number;
  maxBytes: number;
  /** Null when the queue is empty. */
  oldestRecordAgeSeconds: number | null;
  /** Dropped by age or by a full queue, or lost with a corrupt file. */
  droppedRecordsTotal: number;
  /** All dead letters since the queue was created; the table keeps the newest. */
  deadLetters: number;
  /** How often the queue continued under a new queue id, because core knows a copy of it. */
  forks: number;
  /** Corrupt databases that were quarantined in this directory, ever. */
  quarantined: number;
  /** Records in those databases, as far as it is known. */
  quarantinedRecords: number;
  atRisk: boolean;
}

type Risk = Pick<QueueLimits, "maxDiskUsageBytes" | "atRiskBytesPercent" | "atRiskOldestSeconds">;

/** Computes the figures of a queue whose time is `nowAgeMs`. */
export const statsOf = (state: QueueState, oldestAgeMs: number | null, nowAgeMs: number, risk: Risk): QueueStats => {
  const oldestRecordAgeSeconds = oldestAgeMs === null ? null : Math.max(0, Math.floor((nowAgeMs - oldestAgeMs) / 1000));
  return {
    records: state.records,
    bytes: state.bytes,
    maxBytes: risk.maxDiskUsageBytes,
    oldestRecordAgeSeconds,
    droppedRecordsTotal: state.droppedRecords + state.quarantinedRecords,
    deadLetters: state.deadLetters,
    forks: state.forks,
    quarantined: state.quarantined,
    quarantinedRecords: state.quarantinedRecords,
    atRisk:
      state.bytes * 100 >= risk.maxDiskUsageBytes * risk.atRiskBytesPercent ||
      (oldestRecordAgeSeconds ?? 0) >= risk.atRiskOldestSeconds,
  };
};

/**
 * Reads the figures of the queue in `dir`, also while a collector runs: does not take the queue's lock and changes nothing.
 * Returns null if there is no queue yet. Throws if it is corrupt or of another format.
 */
export const readQueueStats = (dir: string, options: Risk & { clock: Pick<Clock, "now"> }): QueueStats | null => {
  const path = queueFiles(dir).database;
  if (!existsSync(path)) return null;
  const database = new DatabaseSync(path, { readOnly: true, timeout: 1_000 });
  try {
    checkFormat(database, dir);
    database.exec("BEGIN");
    const state = readState(database);
    return statsOf(state, readOldestAge(database), ageAt(state, options.clock.now()), options);
  } finally {
    database.close();
  }
};
