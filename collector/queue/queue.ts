import { createAgeClock } from "./age.ts";
import { createAwaitedRecords } from "./awaited-records.ts";
import { type MeasuredRecord, measureRecord } from "./envelope.ts";
import { isDiskUnwritable, QueueClosedError, QueueFullError } from "./errors.ts";
import { createPrivateDirectory, queueFiles } from "./files.ts";
import { holdLock } from "./lock.ts";
import type { Checkpoint, NewRecord, QueuedRecord } from "./record.ts";
import { openRecoveringStore, type RecoveringStoreOptions } from "./recovering-store.ts";
import { type QueueLimits, type QueueStats, statsOf } from "./stats.ts";
import type { QueueStore } from "./store.ts";
import { takeFitting, waitForRoom } from "./wait-for-room.ts";

/**
 * The collector's queue on disk. Invariants:
 * - `append` resolves with "stored" only after the records and the checkpoints that cover them are fsynced, in one transaction;
 *   nothing else makes a record readable. So a reader never sends what a crash could take back, and a source never goes on from
 *   a place whose records are not there.
 * - Sequences rise by one from 1 and are never used twice, also after every record is gone.
 * - Appends are admitted in the order of the calls. The admitted ones of one turn of the event loop share a transaction.
 * - The sum of what the stored and the admitted records count (`measureRecord`) never exceeds `maxDiskUsageBytes`.
 * - One process has a queue open; `openQueue` throws `QueueLockedError` in any other.
 */
export interface Queue {
  /** 16 random bytes that name this queue's numbering to core. */
  readonly queueId: Uint8Array<ArrayBuffer>;
  /** The sequence of the newest record ever stored; 0 in a new queue. */
  readonly lastSequence: number;
  /**
   * Stores the records, together with the checkpoints, all or none. A full queue holds the call until there is room or `signal`
   * aborts (`QueueFullError`). Resolves with "dropped", checkpoints stored and every record counted, if the queue drops the
   * newest when full, or if the records could not fit an empty queue; without the checkpoints, if it drops the newest and the disk is
   * what is full, read-only or failing. Any other rejection means that nothing was stored and the
   * call may be made again.
   */
  append(records: readonly NewRecord[], options?: AppendOptions): Promise<AppendOutcome>;
  /** Records above `sequence` in order, within both bounds; the first is given even if it alone is over `maxBytes`. */
  read(sequence: number, limits: { maxRecords: number; maxBytes: number }): QueuedRecord[];
  /** Resolves when `lastSequence` is above `sequence`; rejects with the signal's reason. */
  waitBeyond(sequence: number, signal: AbortSignal): Promise<void>;
  /**
   * Removes every record at or below `sequence`. Resolves when that is on disk; until then a crash brings them back, unharmed. With
   * `lingerMs` it waits so long for an append to share its transaction, unless an append waits for room.
   */
  ack(sequence: number, options?: { lingerMs?: number }): Promise<void>;
  /** Moves one record to the bounded dead-letter table, for good; false if it is not there any more. */
  moveToDeadLetters(sequence: number, code: string, message: string): boolean;
  /** Drops and counts the records older than `maxRecordAgeSeconds`; gives how many. */
  dropExpired(): number;
  /** Takes a new `queueId`, for a disk that was restored to an older state than core has acknowledged. */
  rotateQueueId(): void;
  /** The checkpoints of a source, by key, as of its last stored append. */
  checkpoints(source: string): Map<string, string>;
  stats(): QueueStats;
  /** Stores what was admitted, rejects what waits with `QueueClosedError`, and gives up the lock. */
  close(): Promise<void>;
}

/** What happened to the records of one `append`. */
export type AppendOutcome = "stored" | "dropped";

/** What may go with the records of one `append`. */
export interface AppendOptions {
  checkpoints?: readonly Checkpoint[];
  signal?: AbortSignal;
  /** Asked once there is room for a call that waited for it; if it says no, the call is given up like one whose signal aborted. */
  isWanted?: () => boolean;
}

/** What a queue needs to know. `dir` is made, for its owner alone, if it is missing. */
export interface QueueOptions extends QueueLimits, RecoveringStoreOptions {
  dropNewestOnFull: boolean;
  /** Records with these sequences were not as they were stored any more; they are set aside. */
  onDamaged?(sequences: readonly number[]): void;
}

interface Append {
  readonly records: readonly MeasuredRecord[];
  readonly total: number;
  readonly checkpoints: readonly Checkpoint[];
  readonly dropped: number;
  readonly isWanted?: (() => boolean) | undefined;
  resolve(outcome: AppendOutcome): void;
  reject(error: unknown): void;
}

const expiryCheckMs = 1_000;
/** Opens the queue in `dir`, making it on first use; a damaged one is put aside and a new one made. Throws `QueueLockedError`, `QueueVersionError`, or what the disk says. */
export const openQueue = (options: QueueOptions): Queue => {
  const { dir, maxDiskUsageBytes, maxRecordAgeSeconds, clock, entropy } = options;
  createPrivateDirectory(dir);
  const lock = holdLock(queueFiles(dir).lock, dir);
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
  const readers = createAwaitedRecords();
  let scheduled = false;
  let lingering: AbortController | undefined;
  let closed = false;
  let unsavedDrops = 0; // for want of a disk that can be written
  let expiryCheckedAt = Number.NEGATIVE_INFINITY;

  const fits = (total: number) => store.state.bytes + admittedBytes + total <= maxDiskUsageBytes;

  const schedule = () => {
    if (scheduled) return;
    scheduled = true;
    // After the poll phase: every request that arrived in this turn shares the fsync.
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

  const flush = () => {
    lingering?.abort();
    lingering = undefined;
    const appends = admitted;
    const acking = acks;
    admitted = [];
    admittedBytes = 0;
    acks = [];
    try {
      store.transaction((transaction) => {
        if (acking.length > 0) transaction.deleteThrough(ackThrough);
        for (const { records, checkpoints, dropped } of appends) {
          for (const record of records) transaction.insert(record);
          for (const checkpoint of checkpoints) transaction.putCheckpoint(checkpoint);
          transaction.state.droppedRecords += dropped;
        }
        transaction.state.droppedRecords += unsavedDrops;
      });
      unsavedDrops = 0;
    } catch (error) {
      for (const { reject } of acking) reject(error);
      const drops = options.dropNewestOnFull && isDiskUnwritable(error);
      for (const { records, dropped, resolve, reject } of appends) {
        if (drops) {
          unsavedDrops += records.length + dropped;
          resolve("dropped");
        } else reject(error);
      }
      return;
    }
    for (const { resolve, dropped } of appends) resolve(dropped > 0 ? "dropped" : "stored");
    for (const { resolve } of acking) resolve();
    readers.wake(store.state.nextSequence - 1);
    admitWaiting();
  };

  /** Makes room by a change that may wait; false while the disk cannot be written. */
  const writeIfPossible = (change: Parameters<QueueStore["transaction"]>[0]): boolean => {
    try {
      store.transaction(change);
    } catch (error) {
      if (isDiskUnwritable(error)) return false;
      throw error;
    }
    admitWaiting();
    return true;
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

  /** Sets aside what is not as it was stored; false while the disk does not take that. */
  const discard = (damaged: readonly number[]): boolean =>
    writeIfPossible(({ moveToDeadLetters }) => {
      for (const sequence of damaged)
        moveToDeadLetters(sequence, "damaged", "it is not as it was stored", deadLetterBounds);
    });

  return {
    get queueId() {
      return store.state.queueId;
    },
    get lastSequence() {
      return store.state.nextSequence - 1;
    },
    append: async (records, { checkpoints = [], signal, isWanted } = {}) => {
      if (closed) throw new QueueClosedError();
      const { promise, resolve, reject } = Promise.withResolvers<AppendOutcome>();
      const measured = records.map(measureRecord);
      const total = measured.reduce((sum, { bytes }) => sum + bytes, 0);
      const append: Append = { records: measured, total, checkpoints, dropped: 0, isWanted, resolve, reject };
      if (waiting.length > 0 || !fits(total)) dropExpired();
      if (waiting.length === 0 && fits(total)) {
        admit(append);
      } else if (options.dropNewestOnFull || total > maxDiskUsageBytes) {
        admit({ ...append, records: [], total: 0, dropped: records.length });
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
        const { records, damaged } = store.read(sequence, maxRecords, maxBytes);
        if (damaged.length === 0 || !discard(damaged)) return records;
        options.onDamaged?.(damaged);
      }
    },
    waitBeyond: (sequence, signal) => {
      if (!signal.aborted && store.state.nextSequence - 1 > sequence) return Promise.resolve();
      return readers.beyond(sequence, signal);
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
      store.transaction((transaction) => {
        moved = transaction.moveToDeadLetters(sequence, code, message, deadLetterBounds);
      });
      admitWaiting();
      return moved;
    },
    dropExpired,
    rotateQueueId: () =>
      store.transaction(({ state }) => {
        state.queueId = entropy.bytes(16);
      }),
    checkpoints: (source) => store.checkpoints(source),
    stats: () => {
      dropExpired();
      const droppedRecords = store.state.droppedRecords + unsavedDrops;
      return statsOf({ ...store.state, droppedRecords }, store.oldestAgeMs(), age(), options);
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
