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
 * The story of a record: `append` admits it, or waits for room, or drops and counts it; `flush` makes one transaction of what was admitted;
 * the mark is written (files.ts), calls resolve, readers wake; after `ack` the next transaction deletes it. A crash before that sends it again.
 */
import { acquireFileLock } from "../files/lock.ts";
import { createAgeClock } from "./age.ts";
import { batchRecords } from "./envelope.ts";
import { isDiskUnwritable, QueueClosedError, QueueFullError, QueueLockedError } from "./errors.ts";
import { createQueueDirectory, queueFiles } from "./files.ts";
import type { Checkpoint, NewRecord, QueuedRecords, RecordBatch } from "./record.ts";
import { openRecoveringStore, type RecoveringStoreOptions } from "./recovering-store.ts";
import { createQueueSessions, type QueueSessions } from "./sessions.ts";
import { damageOf, type QueueLimits, type QueueStats, statsOf } from "./stats.ts";
import type { QueueStore, QueueTransaction } from "./store.ts";
import { createRecordWaiters, takeFitting, waitForRoom } from "./waiters.ts";

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
  append(records: readonly NewRecord[] | RecordBatch, options?: AppendOptions): Promise<AppendOutcome>;
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

interface Append {
  readonly batch: RecordBatch;
  readonly total: number;
  readonly checkpoints: readonly Checkpoint[];
  readonly dropped: number;
  readonly isWanted?: (() => boolean) | undefined;
  resolve(outcome: AppendOutcome): void;
  reject(error: unknown): void;
}

const expiryCheckMs = 1_000;

/**
 * Opens the queue in `dir`, creating it on first use; quarantines and replaces a corrupt one. Throws `QueueLockedError`,
 * `QueueVersionError`, `QueueUnreadableError`, or the file system's error.
 */
export const openQueue = (options: QueueOptions): Queue => {
  const { dir, maxDiskUsageBytes, maxRecordAgeSeconds, clock, entropy } = options;
  createQueueDirectory(dir);
  const lock = acquireFileLock(queueFiles(dir).lock);
  if (lock === null) throw new QueueLockedError(dir);
  let age = () => 0;
  const now = () => ({ ageMs: age(), wallMs: clock.now() });
  let store: QueueStore;
  try {
    store = openRecoveringStore(options, now, () => schedule());
  } catch (error) {
    lock.release();
    throw error;
  }
  age = createAgeClock(clock, store.state);

  const deadLetterBounds = { recordsMax: 1_000, bytesMax: Math.floor(maxDiskUsageBytes / 16) };
  let admitted: Append[] = [];
  let admittedBytes = 0;
  const waiting: Append[] = [];
  let ackThrough = 0;
  let acks: { resolve(): void; reject(error: unknown): void }[] = [];
  const readers = createRecordWaiters();
  let scheduled = false;
  let lingering: AbortController | undefined;
  let closed = false;
  let unsavedDrops = 0; // dropped while the disk cannot be written
  let expiryCheckedAt = Number.NEGATIVE_INFINITY;

  const fits = (total: number) => store.state.bytes + admittedBytes + total <= maxDiskUsageBytes;

  const schedule = () => {
    if (scheduled) return;
    scheduled = true;
    // After the poll phase, so that all requests of this turn share one fsync.
    setImmediate(() => {
      scheduled = false;
      if (!closed) flush();
    });
  };

  const admit = (append: Append) => {
    admitted.push(append);
    admittedBytes += append.total;
    schedule();
  };

  const admitWaiting = () => {
    for (let next = takeFitting(waiting, fits); next; next = takeFitting(waiting, fits)) admit(next);
  };

  const linger = (ms: number) => {
    if (scheduled || lingering !== undefined) return;
    lingering = new AbortController();
    clock.sleep(ms, lingering.signal).then(schedule, () => undefined);
  };

  const deleteAcked = ({ deleteThrough, state }: QueueTransaction) => {
    deleteThrough(ackThrough);
    state.ackedThrough = Math.max(state.ackedThrough, ackThrough);
  };

  const { sessions, write, writeIfPossible } = createQueueSessions(store, entropy, {
    deleteAcked,
    onNewQueueId: () => {
      for (const { resolve } of acks.splice(0)) resolve();
      ackThrough = 0;
    },
    onWritten: admitWaiting,
  });

  const flush = () => {
    lingering?.abort();
    lingering = undefined;
    const appends = admitted;
    const acking = acks;
    admitted = [];
    admittedBytes = 0;
    acks = [];
    try {
      write((transaction) => {
        if (acking.length > 0) deleteAcked(transaction);
        for (const { batch, checkpoints, dropped } of appends) {
          transaction.insert(batch);
          for (const checkpoint of checkpoints) transaction.putCheckpoint(checkpoint);
          transaction.state.droppedRecords += dropped;
        }
        transaction.state.droppedRecords += unsavedDrops;
      });
      unsavedDrops = 0;
    } catch (error) {
      for (const { reject } of acking) reject(error);
      const drops = options.dropNewestOnFull && isDiskUnwritable(error);
      for (const { batch, dropped, resolve, reject } of appends) {
        if (drops) {
          unsavedDrops += batch.count + dropped;
          resolve("dropped");
        } else reject(error);
      }
      return;
    }
    for (const { resolve, dropped } of appends) resolve(dropped > 0 ? "dropped" : "stored");
    for (const { resolve } of acking) resolve();
    readers.notify(store.state.nextSequence - 1);
    admitWaiting();
  };

  const dropExpired = (): number => {
    const checkedAt = clock.monotonic();
    if (closed || checkedAt - expiryCheckedAt < expiryCheckMs) return 0;
    expiryCheckedAt = checkedAt;
    const oldest = store.oldestAgeMs();
    const horizon = age() - maxRecordAgeSeconds * 1000;
    if (oldest === null || oldest >= horizon) return 0;
    const kept = store.firstSequenceSince(horizon) ?? store.state.nextSequence;
    let dropped = 0;
    const done = writeIfPossible((transaction) => {
      dropped = transaction.deleteThrough(kept - 1);
      transaction.state.droppedRecords += dropped;
    });
    return done ? dropped : 0;
  };

  /** Moves corrupt records to the dead letters; false while the disk cannot be written. */
  const removeCorrupt = (corrupt: readonly number[]): boolean =>
    writeIfPossible(({ moveToDeadLetters }) => {
      for (const sequence of corrupt) moveToDeadLetters(sequence, "damaged", "its checksum is wrong", deadLetterBounds);
    });

  return {
    ...sessions,
    get queueId() {
      return store.state.queueId;
    },
    get lastSequence() {
      return store.state.nextSequence - 1;
    },
    append: async (records, { checkpoints = [], signal, isWanted } = {}) => {
      if (closed) throw new QueueClosedError();
      const { promise, resolve, reject } = Promise.withResolvers<AppendOutcome>();
      const batch = "count" in records ? records : batchRecords(records);
      const total = batch.bytes;
      const append: Append = { batch, total, checkpoints, dropped: 0, isWanted, resolve, reject };
      if (waiting.length > 0 || !fits(total)) dropExpired();
      if (waiting.length === 0 && fits(total)) {
        admit(append);
      } else if (options.dropNewestOnFull || total > maxDiskUsageBytes) {
        admit({ ...append, batch: batchRecords([]), total: 0, dropped: batch.count });
      } else if (signal?.aborted) {
        reject(new QueueFullError({ cause: signal.reason }));
      } else {
        waitForRoom(append, waiting, signal);
        if (acks.length > 0) schedule();
      }
      return promise;
    },
    read: (sequence, { maxRecords, maxBytes }) => {
      dropExpired();
      for (;;) {
        const { found, corrupt } = store.read(sequence, maxRecords, maxBytes);
        if (corrupt.length === 0 || !removeCorrupt(corrupt)) return found;
        options.onCorruptRecords?.(corrupt);
      }
    },
    waitBeyond: (sequence, signal) => {
      if (!signal.aborted && store.state.nextSequence - 1 > sequence) return Promise.resolve();
      return readers.wait(sequence, signal);
    },
    ack: async (sequence, { lingerMs = 0 } = {}) => {
      if (closed) throw new QueueClosedError();
      ackThrough = Math.max(ackThrough, sequence);
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      acks.push({ resolve, reject });
      if (lingerMs > 0 && waiting.length === 0) linger(lingerMs);
      else schedule();
      return promise;
    },
    moveToDeadLetters: (sequence, code, message) => {
      let moved = false;
      write((transaction) => {
        moved = transaction.moveToDeadLetters(sequence, code, message, deadLetterBounds);
      });
      admitWaiting();
      return moved;
    },
    dropExpired,
    checkpoints: (source) => store.checkpoints(source),
    stats: () => {
      dropExpired();
      const droppedRecords = store.state.droppedRecords + unsavedDrops;
      const damage = damageOf(store.checkpoints);
      return statsOf({ ...store.state, droppedRecords }, store.oldestAgeMs(), age(), damage, options);
    },
    close: async () => {
      if (closed) return;
      try {
        flush();
      } finally {
        closed = true;
        for (const append of [...waiting.splice(0), ...admitted]) append.reject(new QueueClosedError());
        store.close();
        lock.release();
      }
    },
  };
};
