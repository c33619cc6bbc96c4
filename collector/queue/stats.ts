import { existsSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import type { Clock } from "#kit/clock.ts";
import type { HeartbeatRequest, ReportedCondition } from "#proto/management/heartbeat.ts";
import { ageAt, leastReading } from "./age.ts";
import { type FileGaps, fileGapSource, sumFileGaps } from "./file-gaps.ts";
import {
  checkFormat,
  type QueueState,
  queueFiles,
  readCheckpoints,
  readOldestAge,
  readState,
} from "./format.ts";
import { isLosing, type Losses, parseLosses } from "./losses.ts";
import type { LossTotals } from "./period.ts";
import type { QueueStore } from "./store.ts";
import { missingRecords, readWatermark } from "./watermark.ts";

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
  /** Records that damage of the queue's files took back, ever, as far as it is known; part of `droppedRecordsTotal`. */
  lostRecords: number;
  /** Times that lines of rotated files were lost, and their bytes as far as it is known, ever. */
  fileGaps: number;
  fileGapBytes: number;
  atRisk: boolean;
}

/** Returns the figures as heartbeat, status and diagnostics have them. */
export const queueReport = (
  queue: QueueStats,
  conditions: readonly ReportedCondition[] = [],
): HeartbeatRequest["queue"] => ({
  records: queue.records,
  bytes: queue.bytes,
  max_bytes: queue.maxBytes,
  oldest_record_age_seconds: queue.oldestRecordAgeSeconds,
  dropped_records_total: queue.droppedRecordsTotal,
  dead_letters: queue.deadLetters,
  forks_total: queue.forks,
  file_gaps_total: queue.fileGaps,
  file_gap_bytes_total: queue.fileGapBytes,
  at_risk: queue.atRisk || conditions.length > 0,
});

type Risk = Pick<QueueLimits, "maxDiskUsageBytes" | "atRiskBytesPercent" | "atRiskOldestSeconds">;

interface Damage {
  losses: Losses;
  gaps: FileGaps;
}

/** Returns what was lost ever, from the checkpoints by source. */
export const damageOf = (checkpoints: (source: string) => ReadonlyMap<string, string>): Damage => ({
  losses: parseLosses(checkpoints("queue").get("losses")),
  gaps: sumFileGaps(checkpoints(fileGapSource)),
});

/** Returns what the accounts of a queue state as damage and as gaps. */
export const lossTotals = ({
  state,
  checkpoints,
}: Pick<QueueStore, "state" | "checkpoints">): LossTotals => {
  const { losses, gaps } = damageOf(checkpoints);
  return {
    damaged: state.quarantinedRecords + losses.records,
    fileGapBytes: gaps.bytes,
    fileGaps: gaps.gaps,
    fileGapsUnknown: gaps.unknown,
  };
};

/** Computes the figures of a queue whose time is `nowAgeMs`. */
export const statsOf = (
  state: QueueState,
  oldestAgeMs: number | null,
  nowAgeMs: number,
  { losses, gaps }: Damage,
  risk: Risk,
): QueueStats => {
  const oldestRecordAgeSeconds =
    oldestAgeMs === null ? null : Math.max(0, Math.floor((nowAgeMs - oldestAgeMs) / 1000));
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
    lostRecords: losses.records,
    fileGaps: gaps.gaps,
    fileGapBytes: gaps.bytes,
    atRisk:
      isLosing(losses, nowAgeMs) ||
      state.bytes * 100 >= risk.maxDiskUsageBytes * risk.atRiskBytesPercent ||
      (oldestRecordAgeSeconds ?? 0) >= risk.atRiskOldestSeconds,
  };
};

/**
 * Reads the figures of the queue in `dir`, also while a collector runs: does not take the queue's lock and changes nothing. Counts what the
 * next start will find lost. Returns null if there is no queue yet. Throws if it is corrupt or of another format.
 */
export const readQueueStats = (
  dir: string,
  options: Risk & { clock: Pick<Clock, "now"> },
): QueueStats | null => {
  const path = queueFiles(dir).database;
  if (!existsSync(path)) return null;
  // Before the database, which a running collector moves on.
  const watermark = readWatermark(dir);
  const database = new DatabaseSync(path, { readOnly: true, timeout: 1_000 });
  try {
    checkFormat(database, dir);
    database.exec("BEGIN");
    const state = readState(database);
    const wallMs = options.clock.now();
    const reading = leastReading(state, watermark?.reading, wallMs);
    const ageMs = ageAt(reading, wallMs);
    const missing = missingRecords(watermark, state);
    const checkpoints = readCheckpoints(database);
    const { losses: saved, gaps } = damageOf(
      (source) =>
        new Map(
          checkpoints
            .filter((own) => own.source === source)
            .map(({ key, value }) => [key, value ?? ""]),
        ),
    );
    const hasLost = missing > 0 || reading !== state;
    const losses = hasLost ? { records: saved.records + missing, lastAgeMs: ageMs } : saved;
    const droppedRecords = state.droppedRecords + missing;
    return statsOf(
      { ...state, droppedRecords },
      readOldestAge(database),
      ageMs,
      { losses, gaps },
      options,
    );
  } finally {
    database.close();
  }
};
