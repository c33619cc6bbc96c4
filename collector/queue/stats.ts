import { existsSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import type { Clock } from "../../kit/clock.ts";
import { ageAt } from "./age.ts";
import { queueFiles } from "./files.ts";
import { type QueueState, readOldestAge, readState } from "./format.ts";

/** What bounds a queue, and from where on it counts as at risk (spec, collector config keys). */
export interface QueueLimits {
  maxDiskUsageBytes: number;
  maxRecordAgeSeconds: number;
  atRiskBytesPercent: number;
  atRiskOldestSeconds: number;
}

/** The figures of a queue; the totals survive restarts. */
export interface QueueStats {
  records: number;
  bytes: number;
  maxBytes: number;
  /** Null when the queue is empty. */
  oldestRecordAgeSeconds: number | null;
  /** Dropped by age or by a full queue, or lost with a damaged file. */
  droppedRecordsTotal: number;
  /** Set aside since the queue was made; the table keeps the newest of them. */
  deadLetters: number;
  /** Damaged queues that were put aside in this directory, ever. */
  quarantined: number;
  /** Records that were in these, as far as it could be known. */
  quarantinedRecords: number;
  atRisk: boolean;
}

type Risk = Pick<QueueLimits, "maxDiskUsageBytes" | "atRiskBytesPercent" | "atRiskOldestSeconds">;

/** The figures of a queue whose time is `nowAgeMs`. */
export const statsOf = (state: QueueState, oldestAgeMs: number | null, nowAgeMs: number, risk: Risk): QueueStats => {
  const oldestRecordAgeSeconds = oldestAgeMs === null ? null : Math.max(0, Math.floor((nowAgeMs - oldestAgeMs) / 1000));
  return {
    records: state.records,
    bytes: state.bytes,
    maxBytes: risk.maxDiskUsageBytes,
    oldestRecordAgeSeconds,
    droppedRecordsTotal: state.droppedRecords + state.quarantinedRecords,
    deadLetters: state.deadLetters,
    quarantined: state.quarantined,
    quarantinedRecords: state.quarantinedRecords,
    atRisk:
      state.bytes * 100 >= risk.maxDiskUsageBytes * risk.atRiskBytesPercent ||
      (oldestRecordAgeSeconds ?? 0) >= risk.atRiskOldestSeconds,
  };
};

/**
 * The figures of the queue in `dir`, read beside a collector that may be running: takes no lock of the queue's and changes
 * nothing. Null if there is no queue yet.
 */
export const readQueueStats = (dir: string, options: Risk & { clock: Pick<Clock, "now"> }): QueueStats | null => {
  const path = queueFiles(dir).database;
  if (!existsSync(path)) return null;
  const database = new DatabaseSync(path, { readOnly: true, timeout: 1_000 });
  try {
    database.exec("BEGIN");
    const state = readState(database);
    return statsOf(state, readOldestAge(database), ageAt(state, options.clock.now()), options);
  } finally {
    database.close();
  }
};
