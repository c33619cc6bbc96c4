/*
 * The collector's queue on disk. Invariants:
 * - `append` resolves with "stored" only after the records and their checkpoints are fsynced in one transaction, and only then are
 *   the records readable. So a reader never sends a record that a crash could take back, and a source never continues from a
 *   position whose records are not stored.
 * - Sequences rise by one from 1 and are never used twice, also when every record is deleted.
 * - Appends of records are admitted in the order of the calls; one of checkpoints alone does not wait for room.
 *   Those admitted in one turn of the event loop share a transaction.
 * - The total size (`measureRecord`) of the stored and the admitted records never exceeds `maxDiskUsageBytes`.
 * - One process has a queue open; `openQueue` throws `QueueLockedError` in any other.
 * - Each session with core has an id of its own, on disk before it is sent. `sentThrough` is never below a sequence that was sent: what
 *   was stored since the last start of a process that core has answered was not.
 *
 * The life of a record (the files are in format.ts):
 * 1. `append`: it fits beside what is stored and admitted, or waits for room, or is dropped and counted (`dropNewestOnFull`).
 * 2. `flush`: what was admitted becomes one transaction, and its fsync: a crash before its end leaves nothing, and nobody was answered.
 * 3. The watermark is written without a sync, the calls resolve, readers that wait are woken and read, any number of times.
 * 4. `ack`: core has it; the next transaction deletes it. A crash before that sends it again, and core knows its sequence.
 */

import type { SourceRefusal } from "#proto/completeness/account.ts";
import type { ReportedCondition } from "#proto/management/heartbeat.ts";
import { acquireFileLock } from "../files/lock.ts";
import { type AgeReading, createAgeClock } from "./age.ts";
import { batchRecords } from "./envelope.ts";
import { isDiskUnwritable, QueueClosedError, QueueFullError, QueueLockedError } from "./errors.ts";
import { createQueueDirectory, newOrigin, queueFiles } from "./format.ts";
import { type AccountHooks, createQueueAccounts, type QueueAccounts } from "./queue-accounts.ts";
import type { Checkpoint, NewRecord, QueuedRecords, RecordBatch, RuledRecords } from "./record.ts";
import { openRecoveringStore, type RecoveringStoreOptions } from "./recovering-store.ts";
import { createReportedFault } from "./reported-fault.ts";
import { createQueueSessions, type QueueSessions } from "./sessions.ts";
import { damageOf, lossTotals, type QueueLimits, type QueueStats, statsOf } from "./stats.ts";
import { openFailingStore, type QueueStore, type QueueTransaction } from "./store.ts";
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
  /** Stores the admitted appends or rejects them, rejects the waiting ones with `QueueClosedError`, and releases the lock. */
  close(): Promise<void>;
}

/** The outcome of one `append`. */
type AppendOutcome = "stored" | "dropped";

/** Optional parts of an `append`. */
interface AppendOptions {
  checkpoints?: readonly Checkpoint[];
  /** Counted in the transaction of the records and the checkpoints. */
  ruled?: RuledRecords;
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

/** The store of a queue, and its end. */
interface QueueParts {
  /** Opens the store. `now` may be called at once; `onReplaced` is called after the store has continued in a new file. */
  openStore(now: () => AgeReading, onReplaced: () => void): QueueStore;
  /** Called once the queue is closed. */
  onClosed(): void;
}

/** Records that are dropped. */
interface Refusal {
  reason: SourceRefusal;
  batch: RecordBatch;
}

interface Append {
  readonly batch: RecordBatch;
  readonly total: number;
  readonly checkpoints: readonly Checkpoint[];
  readonly ruled?: RuledRecords | undefined;
  /** The dropped records. They count once the append resolves: a source repeats an append that rejects. */
  readonly refusal?: Refusal;
  readonly isWanted?: (() => boolean) | undefined;
  resolve(outcome: AppendOutcome): void;
  reject(error: unknown): void;
}

const expiryCheckMs = 1_000;
/** How long after a failure of the disk what was acknowledged is deleted again: the next ack may be far away. */
const ackRetryMs = 1_000;

/** Creates a queue on a store (the invariants are those of queue.ts); throws what opening the store throws. */
export const createQueue = (
  options: Omit<QueueOptions, "dir"> & { dir?: string },
  parts: QueueParts,
): Queue => {
  const { maxDiskUsageBytes, maxRecordAgeSeconds, clock } = options;
  let age = () => 0;
  const now = () => ({ ageMs: age(), wallMs: clock.now() });
  let onReplaced: () => void = () => undefined;
  const store = parts.openStore(now, () => onReplaced());
  age = createAgeClock(clock, store.state);

  const deadLetterBounds = { recordsMax: 1_000, bytesMax: Math.floor(maxDiskUsageBytes / 16) };
  let expiryCheckedAt = Number.NEGATIVE_INFINITY;

  const { accounts, hooks } = createQueueAccounts(store, clock, {
    totals: () => lossTotals(store),
    write: (change) => writeIfPossible(change),
  });
  const writes = createPendingWrites(options, store, hooks, {
    write: (change) => write(change),
    dropExpired: () => dropExpired(),
  });
  const disk = createReportedFault("queue_unwritable", clock);
  const { sessions, write, writeIfPossible, changeQueueId } = createQueueSessions(store, options, {
    transact: (change) => {
      try {
        hooks.transaction(change);
        disk.succeeded();
      } catch (error) {
        if (isDiskUnwritable(error)) disk.failed(error, options.dir);
        throw error;
      }
    },
    onRenamed: hooks.renamed,
    writes,
  });

  // It is opened again while the disk cannot be written.
  closeOnError(store, () => accounts.hasEnded() && changeQueueId(0));

  onReplaced = () => {
    hooks.replaced();
    writes.schedule();
  };

  const dropExpired = () => {
    const checkedAt = clock.monotonic();
    if (writes.isClosed() || checkedAt - expiryCheckedAt < expiryCheckMs) return 0;
    expiryCheckedAt = checkedAt;
    const oldest = store.oldestAgeMs();
    const horizon = age() - maxRecordAgeSeconds * 1000;
    if (oldest === null || oldest >= horizon) return 0;
    const kept = store.firstSequenceSince(horizon) ?? store.state.nextSequence;
    let dropped = 0;
    const done = writeIfPossible((transaction) => {
      dropped = transaction.deleteThrough(kept - 1);
      transaction.state.droppedRecords += dropped;
      hooks.apply({ type: "expired", records: dropped });
    });
    return done ? dropped : 0;
  };

  return {
    ...sessions,
    accounts,
    get queueId() {
      return store.state.queueId;
    },
    get lastSequence() {
      return store.state.nextSequence - 1;
    },
    append: writes.append,
    read: (sequence, { maxRecords, maxBytes }) => {
      dropExpired();
      for (;;) {
        const { found, corrupt } = store.read(sequence, maxRecords, maxBytes);
        const isMoved =
          corrupt.length > 0 &&
          writeIfPossible(({ moveToDeadLetters }) => {
            for (const at of corrupt)
              moveToDeadLetters(at, "damaged", "its checksum is wrong", deadLetterBounds);
          });
        // While the disk cannot be written, they stay.
        if (!isMoved) return found;
        options.onCorruptRecords?.(corrupt);
      }
    },
    waitBeyond: (sequence, signal) => {
      if (!signal.aborted && store.state.nextSequence - 1 > sequence) return Promise.resolve();
      return writes.stored(sequence, signal);
    },
    ack: writes.ack,
    moveToDeadLetters: (sequence, code, message) => {
      let moved = false;
      write((transaction) => {
        moved = transaction.moveToDeadLetters(sequence, code, message, deadLetterBounds);
      });
      writes.admitWaiting();
      return moved;
    },
    dropExpired,
    condition: () => {
      // Nothing else writes to an idle queue.
      if (disk.canEnd()) writeIfPossible(() => undefined);
      return disk.condition();
    },
    checkpoints: (source) => store.checkpoints(source),
    stats: () => {
      dropExpired();
      const droppedRecords = store.state.droppedRecords + writes.unsavedDrops();
      const damage = damageOf(store.checkpoints);
      return statsOf(
        { ...store.state, droppedRecords },
        store.oldestAgeMs(),
        age(),
        damage,
        options,
      );
    },
    close: async () => {
      if (writes.isClosed()) return;
      try {
        writes.flush(true);
        accounts.stop();
      } finally {
        writes.close();
        store.close();
        parts.onClosed();
      }
    },
  };
};

const closeOnError = (store: QueueStore, act: () => void) => {
  try {
    act();
  } catch (error) {
    store.close();
    throw error;
  }
};

/** Creates the writes that wait for the next transaction: appends, those that wait for room, and acknowledgements. */
const createPendingWrites = (
  { maxDiskUsageBytes, dropNewestOnFull, clock }: Omit<QueueOptions, "dir">,
  store: QueueStore,
  hooks: AccountHooks,
  calls: { write(change: (transaction: QueueTransaction) => void): void; dropExpired(): void },
) => {
  const readers = createRecordWaiters();
  let admitted: Append[] = [];
  let admittedBytes = 0;
  const waiting: Append[] = [];
  let ackThrough = 0;
  let acks: { resolve(): void; reject(error: unknown): void }[] = [];
  /** Whether what is acknowledged could not be deleted. */
  let isAckDue = false;
  let scheduled = false;
  let lingering: AbortController | undefined;
  let closed = false;
  let unsavedDrops = 0; // dropped while the disk cannot be written

  const fits = (total: number) => store.state.bytes + admittedBytes + total <= maxDiskUsageBytes;
  /** Checkpoints alone take no room. */
  const isNext = (total: number) => total === 0 || (waiting.length === 0 && fits(total));

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

  const reportWaiting = (isWaiting: boolean) =>
    hooks.apply({ type: "waiting", isWaiting, monotonicMs: clock.monotonic() });

  const admitWaiting = () => {
    for (let next = takeFitting(waiting, fits); next; next = takeFitting(waiting, fits))
      admit(next);
    reportWaiting(waiting.length > 0);
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

  const failAppends = (appends: readonly Append[], error: unknown, isLast: boolean) => {
    // Nothing would write down later what the last flush drops: its sources keep it.
    const drops = dropNewestOnFull && !isLast && isDiskUnwritable(error);
    for (const { batch, refusal, ruled, resolve, reject } of appends) {
      if (drops) {
        if (ruled) hooks.apply({ type: "ruled", ...ruled });
        unsavedDrops += drop(refusal ?? { reason: "queue_full", batch }, hooks);
        resolve("dropped");
      } else reject(error);
    }
    // Nothing else would try the waiting appends again before the next success: they may fit now.
    admitWaiting();
    if (appends.length > 0 && !drops && isDiskUnwritable(error)) reportWaiting(true);
  };

  const flush = (isLast = false) => {
    // With a reason: without one, each flush would build an error and its stack trace.
    lingering?.abort("flushed");
    lingering = undefined;
    const appends = admitted;
    const acking = acks;
    admitted = [];
    admittedBytes = 0;
    acks = [];
    try {
      calls.write((transaction) => {
        if (acking.length > 0 || isAckDue) deleteAcked(transaction);
        for (const { batch, checkpoints, refusal, ruled } of appends) {
          transaction.insert(batch);
          hooks.apply({ type: "accepted", counts: batch.counts });
          if (ruled) hooks.apply({ type: "ruled", ...ruled });
          for (const checkpoint of checkpoints) transaction.putCheckpoint(checkpoint);
          if (refusal) transaction.state.droppedRecords += drop(refusal, hooks);
        }
        transaction.state.droppedRecords += unsavedDrops;
      });
    } catch (error) {
      isAckDue ||= acking.length > 0;
      if (isAckDue) linger(ackRetryMs);
      for (const { reject } of acking) reject(error);
      failAppends(appends, error, isLast);
      return;
    }
    unsavedDrops = 0;
    isAckDue = false;
    for (const { resolve, refusal } of appends) resolve(refusal ? "dropped" : "stored");
    for (const { resolve } of acking) resolve();
    readers.notify(store.state.nextSequence - 1);
    admitWaiting();
  };

  const append: Queue["append"] = async (records, options = {}) => {
    const { checkpoints = [], ruled, signal, isWanted } = options;
    if (closed) throw new QueueClosedError();
    const { promise, resolve, reject } = Promise.withResolvers<AppendOutcome>();
    const batch = "count" in records ? records : batchRecords(records);
    const total = batch.bytes;
    const next: Append = { batch, total, checkpoints, ruled, isWanted, resolve, reject };
    if (!isNext(total)) calls.dropExpired();
    if (isNext(total)) {
      admit(next);
    } else if (dropNewestOnFull || total > maxDiskUsageBytes) {
      const reason = total > maxDiskUsageBytes ? "too_large" : "queue_full";
      admit({ ...next, batch: batchRecords([]), total: 0, refusal: { reason, batch } });
    } else if (signal?.aborted) {
      reject(new QueueFullError({ cause: signal.reason }));
    } else {
      waitForRoom(next, waiting, signal);
      reportWaiting(true);
      if (acks.length > 0) schedule();
    }
    return promise;
  };

  const ack: Queue["ack"] = async (sequence, { lingerMs = 0 } = {}) => {
    if (closed) throw new QueueClosedError();
    ackThrough = Math.max(ackThrough, sequence);
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    acks.push({ resolve, reject });
    if (lingerMs > 0 && waiting.length === 0) linger(lingerMs);
    else schedule();
    return promise;
  };

  return {
    append,
    ack,
    schedule,
    flush,
    stored: readers.wait,
    admitWaiting,
    deleteAcked,
    acknowledged: () => ackThrough,
    /** Resolves the acknowledgements: under another queue id there is nothing to delete. */
    forgetAcks: () => {
      for (const { resolve } of acks.splice(0)) resolve();
      ackThrough = 0;
    },
    unsavedDrops: () => unsavedDrops,
    isClosed: () => closed,
    /** Rejects what is not stored yet, and everything after it. */
    close: () => {
      closed = true;
      lingering?.abort();
      for (const { reject } of [...waiting.splice(0), ...admitted]) reject(new QueueClosedError());
    },
  };
};

/** Counts what is dropped; returns how many records it has. */
const drop = ({ reason, batch }: Refusal, hooks: AccountHooks) => {
  for (const count of batch.counts) hooks.apply({ type: "refused", reason, ...count });
  return batch.count;
};
