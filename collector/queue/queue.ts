/*
 * The collector's queue on disk. Invariants:
 * - `append` resolves with "stored" only after the records and their checkpoints are fsynced in one transaction, and only then are
 *   the records readable. So a reader never sends a record that a crash could take back, and a source never continues from a
 *   position whose records are not stored.
 * - Sequences rise by one from 1 and are never used twice, also when every record is deleted.
 * - Appends are admitted in the order of the calls. Those admitted in one turn of the event loop share a transaction.
 * - The total size (`measureRecord`) of the stored and the admitted records never exceeds `maxDiskUsageBytes`.
 * - One process has a queue open; `openQueue` throws `QueueLockedError` in any other.
 * - Each session with core has an id of its own, on disk before it is sent. `sentThrough` is never below a sequence that was sent: what
 *   was stored since the last start of a process that core has answered was not.
 *
 * The story of a record (the files are in files.ts):
 * 1. `append`: it fits beside what is stored and admitted, or waits for room, or is dropped and counted (`dropNewestOnFull`).
 * 2. `flush`: what was admitted becomes one transaction, and its fsync: a crash before its end leaves nothing, and nobody was answered.
 * 3. The watermark is written without a sync, the calls resolve, readers that wait are woken and read, any number of times.
 * 4. `ack`: core has it; the next transaction deletes it. A crash before that sends it again, and core knows its sequence.
 */
import type { ReportedCondition } from "../../proto/management/heartbeat.ts";
import { acquireFileLock } from "../files/lock.ts";
import { createQueue } from "./create-queue.ts";
import { QueueLockedError } from "./errors.ts";
import { createQueueDirectory, queueFiles } from "./files.ts";
import { newOrigin } from "./format.ts";
import type { QueueAccounts } from "./queue-accounts.ts";
import type { Checkpoint, NewRecord, QueuedRecords, RecordBatch } from "./record.ts";
import { openRecoveringStore, type RecoveringStoreOptions } from "./recovering-store.ts";
import type { QueueSessions } from "./sessions.ts";
import type { QueueLimits, QueueStats } from "./stats.ts";
import { openFailingStore } from "./store.ts";

/** An open queue. */
export interface Queue extends QueueSessions {
  /** 16 random bytes that identify this queue's sequences to core. */
  readonly queueId: Uint8Array<ArrayBuffer>;
  /** The sequence of the newest record ever stored; 0 in a new queue. */
  readonly lastSequence: number;
  /**
   * Stores the records and the checkpoints, all or none. While the queue is full, waits for room; rejects with `QueueFullError` when
   * `signal` aborts. Resolves with "dropped" if the queue drops the newest when full, or if the records could not fit an empty queue:
   * every record is then counted and the checkpoints are stored (they are not if the disk itself cannot be written). After any other
   * rejection nothing was stored and the call may be repeated.
   */
  append(
    records: readonly NewRecord[] | RecordBatch,
    options?: AppendOptions,
  ): Promise<AppendOutcome>;
  /** Returns records above `sequence` in order, within both bounds; the first one also if it alone is over `maxBytes`. */
  read(sequence: number, limits: { maxRecords: number; maxBytes: number }): QueuedRecords[];
  /** Resolves when `lastSequence` is above `sequence`; rejects with the signal's reason. */
  waitBeyond(sequence: number, signal: AbortSignal): Promise<void>;
  /**
   * Removes every record at or below `sequence`. Resolves when that is on disk; after a crash before it, the records are still there.
   * `lingerMs` is how long it may wait to share an append's transaction; it does not wait while an append waits for room.
   */
  ack(sequence: number, options?: { lingerMs?: number }): Promise<void>;
  /** Moves one record to the bounded dead-letter table; false if the queue no longer has it. */
  moveToDeadLetters(sequence: number, code: string, message: string): boolean;
  /** Drops and counts the records older than `maxRecordAgeSeconds`; returns their number. */
  dropExpired(): number;
  /** Returns the stored checkpoints of a source, by key. */
  checkpoints(source: string): Map<string, string>;
  stats(): QueueStats;
  /** Returns why nothing can be stored; undefined if it can. */
  condition(): ReportedCondition | undefined;
  readonly accounts: QueueAccounts;
  /** Stores the admitted appends, rejects the waiting ones with `QueueClosedError`, and releases the lock. */
  close(): Promise<void>;
}

/** The outcome of one `append`. */
export type AppendOutcome = "stored" | "dropped";

/** Optional parts of an `append`. */
export interface AppendOptions {
  checkpoints?: readonly Checkpoint[];
  signal?: AbortSignal;
  /** Called when there is room for a call that waited; false rejects the call as if its signal had aborted. */
  isWanted?: () => boolean;
}

/** The options of a queue. `dir` is created with mode 0700 if it is missing. */
export interface QueueOptions extends QueueLimits, RecoveringStoreOptions {
  dropNewestOnFull: boolean;
  /** Called after records whose checksums are wrong were moved to the dead letters. */
  onCorruptRecords?(sequences: readonly number[]): void;
}

/**
 * Opens the queue in `dir`, creating it on first use; quarantines and replaces a corrupt one. Throws `QueueLockedError`,
 * `QueueVersionError`, `QueueUnreadableError`, or the file system's error.
 */
export const openQueue = (options: QueueOptions): Queue => {
  createQueueDirectory(options.dir);
  const lock = acquireFileLock(queueFiles(options.dir).lock);
  if (lock === null) throw new QueueLockedError(options.dir);
  try {
    return createQueue(options, {
      openStore: (now, onReplaced) => openRecoveringStore(options, now, onReplaced),
      onClosed: lock.release,
    });
  } catch (error) {
    lock.release();
    throw error;
  }
};

/** Opens a queue in memory in place of one that cannot be opened: it is empty, and each write fails with `cause`. */
export const openStandIn = (options: QueueOptions, cause: unknown): Queue => {
  const origin = newOrigin(options.entropy, { ageMs: 0, wallMs: options.clock.now() });
  const openStore = () => openFailingStore(origin, cause);
  return createQueue(
    { ...options, dropNewestOnFull: false },
    { openStore, onClosed: () => undefined },
  );
};
