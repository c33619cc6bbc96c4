/*
 * The queue's database. Invariants:
 * - Every change is one transaction together with the `state` row, and is on disk (WAL, synchronous=FULL) when `transaction`
 *   returns. If it throws, neither the disk nor `state` has changed.
 * - `state.nextSequence` is above every sequence ever stored and only rises, also when every record is deleted.
 * - `state.records` and `state.bytes` are the number and the total size of the records in the table `block`.
 * - `checkpoints` mirrors the table in memory, so that they survive a corrupt file.
 */
import { DatabaseSync } from "node:sqlite";
import { createPrivateFileSync } from "../files/private-files.ts";
import { type AccountTable, createAccountTable } from "./account-table.ts";
import type { BlockEncoder } from "./block.ts";
import { type BlockTable, createBlockTable } from "./block-table.ts";
import { decodeEnvelope } from "./envelope.ts";
import { isDiskUnwritable, QueueCorruptError } from "./errors.ts";
import {
  createTables,
  isCorruption,
  prepareQueueDatabase,
  prepareSaveState,
  type QueueOrigin,
  type QueueState,
  queueFiles,
  readCheckpoints,
  readState,
} from "./format.ts";
import type { Checkpoint, NewRecord, RecordBatch } from "./record.ts";

/** The changes of one transaction. */
export interface QueueTransaction {
  /** The state as this transaction will commit it. */
  readonly state: QueueState;
  /** Stores the records under the next sequences. */
  insert(batch: RecordBatch): void;
  /** Removes every record at or below `sequence` and returns their number. None may be of this transaction. */
  deleteThrough(sequence: number): number;
  /** Moves a record to the dead letters and trims these to their bounds; false if there is no such record. */
  moveToDeadLetters(
    sequence: number,
    code: string,
    message: string,
    bounds: { recordsMax: number; bytesMax: number },
  ): boolean;
  putCheckpoint(checkpoint: Checkpoint): void;
  readonly accounts: AccountTable;
}

/** The database, open for writing in one process. */
export interface QueueStore
  extends Pick<BlockTable, "read" | "oldestAgeMs" | "firstSequenceSince"> {
  /** The state after the last transaction. */
  readonly state: Readonly<QueueState>;
  /** Commits the changes; returns the checkpoints among them. */
  transaction(change: (transaction: QueueTransaction) => void): readonly Checkpoint[];
  checkpoints(source: string): Map<string, string>;
  allCheckpoints(): Checkpoint[];
  /** Reads accounts, outside a transaction. */
  accounts<Found>(read: (table: AccountTable) => Found): Found;
  close(): void;
}

/**
 * Opens the queue's database in `dir`, creating it on first use; everything in it is then on disk. The caller has the directory's
 * lock. Throws `QueueCorruptError`, or `QueueVersionError` for another format.
 */
export const openStore = (
  dir: string,
  origin: () => QueueOrigin,
  now: () => { ageMs: number; wallMs: number },
): QueueStore => {
  const path = queueFiles(dir).database;
  createPrivateFileSync(path);
  const database = new DatabaseSync(path, { timeout: 5_000 });
  try {
    prepareQueueDatabase(database, dir, origin);
    return createStore(database, now);
  } catch (error) {
    database.close();
    if (isCorruption(error)) throw new QueueCorruptError(dir, { cause: error });
    throw error;
  }
};

/** Opens an empty store in memory, which fails every change with `cause`. */
export const openFailingStore = (origin: QueueOrigin, cause: unknown): QueueStore => {
  const database = new DatabaseSync(":memory:");
  createTables(database, origin);
  const transaction = () => {
    throw cause;
  };
  return { ...createStore(database, () => origin), transaction };
};

const createStore = (
  database: DatabaseSync,
  now: () => { ageMs: number; wallMs: number },
): QueueStore => {
  const begin = database.prepare("BEGIN IMMEDIATE");
  const commit = database.prepare("COMMIT");
  const saveState = prepareSaveState(database);
  const insertDeadLetter = database.prepare(
    "INSERT INTO dead_letter VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
  );
  const trimDeadLetters = database.prepare(
    `DELETE FROM dead_letter WHERE id IN (
       SELECT id FROM (SELECT id, row_number() OVER newest AS position, sum(bytes) OVER newest AS total
                       FROM dead_letter WINDOW newest AS (ORDER BY id DESC))
       WHERE position > ? OR total > ?)`,
  );
  const putCheckpoint = database.prepare("INSERT OR REPLACE INTO checkpoint VALUES (?, ?, ?)");
  const deleteCheckpoint = database.prepare("DELETE FROM checkpoint WHERE source = ? AND key = ?");
  const blocks = createBlockTable(database);
  const accounts = createAccountTable(database);

  // Counted anew: a flipped bit of the row's own numbers would fill the queue for good, or lift its limit.
  let state: QueueState = { ...readState(database), ...blocks.totals() };
  const checkpoints = new Map<string, Map<string, string>>();
  const mirror = ({ source, key, value }: Checkpoint) => {
    const own = checkpoints.get(source) ?? new Map<string, string>();
    checkpoints.set(source, own);
    if (value === null) own.delete(key);
    else own.set(key, value);
  };
  for (const checkpoint of readCheckpoints(database)) mirror(checkpoint);
  let uncommitted: Checkpoint[] = [];

  const insertInto =
    (draft: QueueState, encoder: BlockEncoder): QueueTransaction["insert"] =>
    (batch) => {
      for (let index = 0; index < batch.count; index++) encoder.add(batch, index);
      draft.nextSequence += batch.count;
      draft.records += batch.count;
      draft.bytes += batch.bytes;
    };

  const changesOf = (draft: QueueState, insert: QueueTransaction["insert"]): QueueTransaction => ({
    state: draft,
    insert,
    deleteThrough: (sequence) => {
      const removed = blocks.deleteThrough(sequence);
      draft.records -= removed.records;
      draft.bytes -= removed.bytes;
      return removed.records;
    },
    moveToDeadLetters: (sequence, code, message, bounds) => {
      const taken = blocks.take(sequence);
      if (taken === null) return false;
      const { kind, observedAtMs, source, attributes, payload } = contentOf(taken.envelope);
      const { queueId, wallMs } = draft;
      const letter = [kind, observedAtMs, source, JSON.stringify(attributes), payload];
      insertDeadLetter.run(sequence, queueId, code, message, wallMs, taken.bytes, ...letter);
      draft.records -= 1;
      draft.bytes -= taken.bytes;
      draft.deadLetters += 1;
      trimDeadLetters.run(bounds.recordsMax, bounds.bytesMax);
      return true;
    },
    putCheckpoint: (checkpoint) => {
      const { source, key, value } = checkpoint;
      if (value === null) deleteCheckpoint.run(source, key);
      else putCheckpoint.run(source, key, value);
      uncommitted.push(checkpoint);
    },
    accounts,
  });

  return {
    get state() {
      return state;
    },
    transaction: (change) => {
      const draft = { ...state, ...now() };
      uncommitted = [];
      begin.run();
      try {
        const encoder = blocks.insertFrom(draft.nextSequence, draft.ageMs);
        change(changesOf(draft, insertInto(draft, encoder)));
        encoder.end();
        saveState(draft);
        commit.run();
      } catch (error) {
        // A failed COMMIT may have rolled back already.
        if (database.isTransaction) database.exec("ROLLBACK");
        // Moves the log into the database: on a full disk that is the only way to free space.
        if (isDiskUnwritable(error)) database.exec("PRAGMA wal_checkpoint(TRUNCATE)");
        throw error;
      }
      state = draft;
      uncommitted.forEach(mirror);
      return uncommitted;
    },
    read: blocks.read,
    oldestAgeMs: blocks.oldestAgeMs,
    firstSequenceSince: blocks.firstSequenceSince,
    checkpoints: (source) => new Map(checkpoints.get(source)),
    allCheckpoints: () =>
      Array.from(checkpoints, ([source, own]) =>
        Array.from(own, ([key, value]) => ({ source, key, value })),
      ).flat(),
    accounts: (read) => read(accounts),
    close: () => database.close(),
  };
};

/** Returns the content of a dead letter: the decoded record, or the raw bytes if they cannot be decoded. */
const contentOf = (envelope: Uint8Array): NewRecord => {
  try {
    return decodeEnvelope(envelope);
  } catch {
    return { kind: "", observedAtMs: 0, source: "", attributes: {}, payload: envelope };
  }
};
