import { DatabaseSync } from "node:sqlite";
import { type BlockTable, blockBytesMax, createBlockTable } from "./block-table.ts";
import { decodeEnvelope, type MeasuredRecord } from "./envelope.ts";
import { isDiskUnwritable, QueueDamagedError } from "./errors.ts";
import { createPrivateFile, queueFiles } from "./files.ts";
import { isDamage, prepareDatabase, type QueueOrigin, type QueueState, readCheckpoints, readState } from "./format.ts";
import type { Checkpoint, NewRecord } from "./record.ts";

/**
 * The queue's database. Invariants:
 * - Everything that changes does so in one transaction together with the `state` row, and a transaction is on the disk (WAL,
 *   synchronous=FULL) when `transaction` returns. If it throws, neither the disk nor `state` has changed.
 * - `state.nextSequence` is above every sequence ever stored and only rises, also when every record is gone.
 * - `state.records` and `state.bytes` are the count and the sum over the records in the table `block`.
 * - `checkpoints` are those in the table, so that they outlive a file that is found damaged.
 */

/** The changes that one transaction may hold. */
export interface QueueTransaction {
  /** The state as this transaction will leave it. */
  readonly state: QueueState;
  /** Stores a record under the next sequence. */
  insert(record: MeasuredRecord): void;
  /** Removes every record at or below `sequence`, which none of this transaction's is; gives how many there were. */
  deleteThrough(sequence: number): number;
  /** Moves a record to the dead letters and keeps these within their bounds; false if there is no such record. */
  moveToDeadLetters(
    sequence: number,
    code: string,
    message: string,
    bounds: { recordsMax: number; bytesMax: number },
  ): boolean;
  putCheckpoint(checkpoint: Checkpoint): void;
}

/** The database, opened for writing by one process. */
export interface QueueStore extends Pick<BlockTable, "read" | "oldestAgeMs" | "firstSequenceSince"> {
  /** As of the last transaction. */
  readonly state: Readonly<QueueState>;
  transaction(change: (transaction: QueueTransaction) => void): void;
  checkpoints(source: string): Map<string, string>;
  allCheckpoints(): Checkpoint[];
  close(): void;
}

/**
 * Opens the queue's database in `dir`, making it on first use; all that it then holds is on the disk. The caller holds the directory's
 * lock. Throws `QueueDamagedError` if the file is no intact database, `QueueVersionError` if it is a newer collector's.
 */
export const openStore = (
  dir: string,
  origin: () => QueueOrigin,
  now: () => { ageMs: number; wallMs: number },
): QueueStore => {
  const path = queueFiles(dir).database;
  createPrivateFile(path);
  const database = new DatabaseSync(path, { timeout: 5_000 });
  try {
    prepareDatabase(database, dir, origin);
    return createStore(database, now);
  } catch (error) {
    database.close();
    if (isDamage(error)) throw new QueueDamagedError(dir, { cause: error });
    throw error;
  }
};

const createStore = (database: DatabaseSync, now: () => { ageMs: number; wallMs: number }): QueueStore => {
  const begin = database.prepare("BEGIN IMMEDIATE");
  const commit = database.prepare("COMMIT");
  const saveState = database.prepare(
    `UPDATE state SET queue_id = ?, next_sequence = ?, records = ?, bytes = ?, dropped_records = ?, dead_letters = ?,
     age_ms = ?, wall_ms = ?`,
  );
  const insertDeadLetter = database.prepare("INSERT INTO dead_letter VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  const trimDeadLetters = database.prepare(
    `DELETE FROM dead_letter WHERE id IN (
       SELECT id FROM (SELECT id, row_number() OVER newest AS place, sum(bytes) OVER newest AS total
                       FROM dead_letter WINDOW newest AS (ORDER BY id DESC))
       WHERE place > ? OR total > ?)`,
  );
  const putCheckpoint = database.prepare("INSERT OR REPLACE INTO checkpoint VALUES (?, ?, ?)");
  const deleteCheckpoint = database.prepare("DELETE FROM checkpoint WHERE source = ? AND key = ?");
  const blocks = createBlockTable(database);

  let state: QueueState = readState(database);
  const checkpoints = new Map<string, Map<string, string>>();
  const keep = ({ source, key, value }: Checkpoint) => {
    const own = checkpoints.get(source) ?? new Map<string, string>();
    checkpoints.set(source, own);
    if (value === null) own.delete(key);
    else own.set(key, value);
  };
  for (const checkpoint of readCheckpoints(database)) keep(checkpoint);
  let unkept: Checkpoint[] = [];

  /** Collects records into blocks; `write` stores what is left. */
  const createBlockWriter = (draft: QueueState) => {
    let records: MeasuredRecord[] = [];
    let bytes = 0;
    const write = () => {
      if (records.length > 0) blocks.insert(records, draft.nextSequence - records.length, draft.ageMs);
      records = [];
      bytes = 0;
    };
    const add = (measured: MeasuredRecord) => {
      if (bytes + measured.bytes > blockBytesMax) write();
      records.push(measured);
      bytes += measured.bytes;
      draft.nextSequence += 1;
      draft.records += 1;
      draft.bytes += measured.bytes;
    };
    return { add, write };
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
      unkept.push(checkpoint);
    },
  });

  return {
    get state() {
      return state;
    },
    transaction: (change) => {
      const draft = { ...state, ...now() };
      unkept = [];
      begin.run();
      try {
        const writer = createBlockWriter(draft);
        change(changesOf(draft, writer.add));
        writer.write();
        const { queueId, nextSequence, records, bytes, droppedRecords, deadLetters, ageMs, wallMs } = draft;
        saveState.run(queueId, nextSequence, records, bytes, droppedRecords, deadLetters, ageMs, wallMs);
        commit.run();
      } catch (error) {
        // A failed COMMIT may have rolled back already.
        if (database.isTransaction) database.exec("ROLLBACK");
        // What the log holds is in the database too, or can be: on a full disk that is the only room there is.
        if (isDiskUnwritable(error)) database.exec("PRAGMA wal_checkpoint(TRUNCATE)");
        throw error;
      }
      state = draft;
      unkept.forEach(keep);
    },
    read: blocks.read,
    oldestAgeMs: blocks.oldestAgeMs,
    firstSequenceSince: blocks.firstSequenceSince,
    checkpoints: (source) => new Map(checkpoints.get(source)),
    allCheckpoints: () =>
      Array.from(checkpoints, ([source, own]) => Array.from(own, ([key, value]) => ({ source, key, value }))).flat(),
    close: () => database.close(),
  };
};

/** What a dead letter says: the record, or the bytes of one that is damaged beyond that. */
const contentOf = (envelope: Uint8Array): NewRecord => {
  try {
    return decodeEnvelope(envelope);
  } catch {
    return { kind: "", observedAtMs: 0, source: "", attributes: {}, payload: envelope };
  }
};
