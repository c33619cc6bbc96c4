import { DatabaseSync, type SQLOutputValue } from "node:sqlite";
import { isDiskUnwritable, QueueDamagedError, QueueVersionError, sqliteCodeOf } from "./errors.ts";
import { createPrivateFile, queueFiles, syncDirectory } from "./files.ts";
import type { Checkpoint, NewRecord, QueuedRecord } from "./record.ts";

/**
 * The queue's database. Invariants:
 * - Everything that changes does so in one transaction together with the `state` row, and a transaction is on the disk (WAL,
 *   synchronous=FULL) when `transaction` returns. If it throws, neither the disk nor `state` has changed.
 * - `state.nextSequence` is above every sequence ever stored and only rises, also when every record is gone.
 * - `state.records` and `state.bytes` are the count and the sum over the table `record`.
 */

const formatVersion = 2;

/** How a queue of the format before is brought up to the next; each is its own transaction's part and loses nothing. */
const upgrades: Record<number, string> = {
  1: "ALTER TABLE state ADD COLUMN quarantined INTEGER NOT NULL DEFAULT 0",
};

/** What the one row of `state` holds. */
export interface QueueState {
  queueId: Uint8Array<ArrayBuffer>;
  nextSequence: number;
  records: number;
  bytes: number;
  droppedRecords: number;
  deadLetters: number;
  ageMs: number;
  wallMs: number;
  /** Queues before this one, in the same directory, that were found broken and put aside. */
  quarantined: number;
}

/** The changes that one transaction may hold. */
export interface QueueTransaction {
  /** The state as this transaction will leave it. */
  readonly state: QueueState;
  /** Stores a record under the next sequence. */
  insert(record: NewRecord, bytes: number): void;
  /** Removes every record at or below `sequence`; gives how many there were. */
  deleteThrough(sequence: number): number;
  /** Moves a record to the dead letters and keeps these within their bounds; false if there is no such record. */
  setAside(sequence: number, code: string, message: string, bounds: { recordsMax: number; bytesMax: number }): boolean;
  putCheckpoint(checkpoint: Checkpoint): void;
}

/** The database, opened for writing by one process. */
export interface QueueStore {
  /** As of the last transaction. */
  readonly state: Readonly<QueueState>;
  transaction(change: (transaction: QueueTransaction) => void): void;
  /** Records above `sequence` in order, until either bound is reached; the first one is given even if it is over `bytesMax`. */
  read(sequence: number, recordsMax: number, bytesMax: number): QueuedRecord[];
  /** The `ageMs` of the oldest record. */
  oldestAgeMs(): number | null;
  /** The first sequence that was stored at or after `ageMs`, or null if none was. */
  firstSequenceSince(ageMs: number): number | null;
  checkpoints(source: string): Map<string, string>;
  close(): void;
}

const tables = `
CREATE TABLE state (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  queue_id BLOB NOT NULL, next_sequence INTEGER NOT NULL, records INTEGER NOT NULL, bytes INTEGER NOT NULL,
  dropped_records INTEGER NOT NULL, dead_letters INTEGER NOT NULL, age_ms INTEGER NOT NULL, wall_ms INTEGER NOT NULL,
  quarantined INTEGER NOT NULL
) STRICT;
CREATE TABLE record (
  sequence INTEGER PRIMARY KEY, bytes INTEGER NOT NULL, age_ms INTEGER NOT NULL, kind TEXT NOT NULL,
  observed_at_ms INTEGER NOT NULL, source TEXT NOT NULL, attributes TEXT NOT NULL, payload BLOB NOT NULL
) STRICT;
CREATE TABLE dead_letter (
  id INTEGER PRIMARY KEY, sequence INTEGER NOT NULL, queue_id BLOB NOT NULL, code TEXT NOT NULL, message TEXT NOT NULL,
  set_aside_at_ms INTEGER NOT NULL, bytes INTEGER NOT NULL, kind TEXT NOT NULL, observed_at_ms INTEGER NOT NULL,
  source TEXT NOT NULL, attributes TEXT NOT NULL, payload BLOB NOT NULL
) STRICT;
CREATE TABLE checkpoint (
  source TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (source, key)
) STRICT, WITHOUT ROWID;
`;

class MissingStateError extends Error {}

/** The `state` row of an open database. */
export const readState = (database: DatabaseSync): QueueState => {
  const row = database.prepare("SELECT * FROM state").get();
  if (row === undefined) throw new MissingStateError("the queue's database has no state row");
  return {
    queueId: Uint8Array.from(bytesOf(row.queue_id)),
    nextSequence: numberOf(row.next_sequence),
    records: numberOf(row.records),
    bytes: numberOf(row.bytes),
    droppedRecords: numberOf(row.dropped_records),
    deadLetters: numberOf(row.dead_letters),
    ageMs: numberOf(row.age_ms),
    wallMs: numberOf(row.wall_ms),
    // Not there in format 1, which a reader beside a collector of before may meet.
    quarantined: numberOf(row.quarantined ?? 0),
  };
};

/**
 * Opens the queue's database in `dir`, making it on first use; all that it then holds is on the disk. The caller holds the directory's
 * lock. Throws `QueueDamagedError` if the file is no intact database, `QueueVersionError` if it is a newer collector's.
 */
export const openStore = (
  dir: string,
  fresh: { queueId: Uint8Array<ArrayBuffer>; wallMs: number; quarantined: number },
  now: () => { ageMs: number; wallMs: number },
): QueueStore => {
  const path = queueFiles(dir).database;
  createPrivateFile(path);
  const database = new DatabaseSync(path, { timeout: 5_000 });
  try {
    prepareDatabase(database, dir, fresh);
    return createStore(database, now);
  } catch (error) {
    database.close();
    if (isDamage(error)) throw new QueueDamagedError(dir, { cause: error });
    throw error;
  }
};

const prepareDatabase = (
  database: DatabaseSync,
  dir: string,
  fresh: { queueId: Uint8Array; wallMs: number; quarantined: number },
): void => {
  // 16 KiB pages: a third faster than 4 KiB for lines, twice as fast for payloads of a few tens of kilobytes.
  database.exec("PRAGMA page_size = 16384; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL");
  const version = numberOf(database.prepare("PRAGMA user_version").get()?.user_version);
  if (version > formatVersion) throw new QueueVersionError(dir, version, formatVersion);
  if (version === 0) {
    database.exec(`BEGIN IMMEDIATE; ${tables}`);
    const insert = database.prepare("INSERT INTO state VALUES (1, ?, 1, 0, 0, 0, 0, 0, ?, ?)");
    insert.run(fresh.queueId, fresh.wallMs, fresh.quarantined);
    database.exec(`PRAGMA user_version = ${formatVersion}; COMMIT`);
    syncDirectory(dir);
    return;
  }
  const [fault] = Object.values(database.prepare("PRAGMA quick_check(1)").get() ?? {});
  if (fault !== "ok") throw new QueueDamagedError(dir, { cause: new Error(String(fault)) });
  for (let from = version; from < formatVersion; from++)
    database.exec(`BEGIN IMMEDIATE; ${upgrades[from] ?? ""}; PRAGMA user_version = ${from + 1}; COMMIT`);
  // A killed collector may leave a commit that was written and not yet synced. It counts from here on, so it has to be on the disk.
  database.exec("PRAGMA wal_checkpoint(TRUNCATE)");
};

/** SQLITE_CORRUPT and SQLITE_NOTADB; or the database lacks a table, a row or a column that every queue has. */
const isDamage = (error: unknown): boolean => {
  if (error instanceof TypeError || error instanceof MissingStateError) return true;
  const code = sqliteCodeOf(error);
  return code === 11 || code === 26 || (code === 1 && error instanceof Error && error.message.startsWith("no such "));
};

const createStore = (database: DatabaseSync, now: () => { ageMs: number; wallMs: number }): QueueStore => {
  const begin = database.prepare("BEGIN IMMEDIATE");
  const commit = database.prepare("COMMIT");
  const saveState = database.prepare(
    `UPDATE state SET queue_id = ?, next_sequence = ?, records = ?, bytes = ?, dropped_records = ?, dead_letters = ?,
     age_ms = ?, wall_ms = ?`,
  );
  const insertRecord = database.prepare("INSERT INTO record VALUES (?, ?, ?, ?, ?, ?, ?, ?)");
  const sumThrough = database.prepare("SELECT count(*), coalesce(sum(bytes), 0) FROM record WHERE sequence <= ?");
  const deleteRecords = database.prepare("DELETE FROM record WHERE sequence <= ?");
  const deleteRecord = database.prepare("DELETE FROM record WHERE sequence = ? RETURNING bytes");
  const insertDeadLetter = database.prepare(
    `INSERT INTO dead_letter
     SELECT NULL, sequence, ?, ?, ?, ?, bytes, kind, observed_at_ms, source, attributes, payload FROM record WHERE sequence = ?`,
  );
  const trimDeadLetters = database.prepare(
    `DELETE FROM dead_letter WHERE id IN (
       SELECT id FROM (SELECT id, row_number() OVER newest AS place, sum(bytes) OVER newest AS total
                       FROM dead_letter WINDOW newest AS (ORDER BY id DESC))
       WHERE place > ? OR total > ?)`,
  );
  const putCheckpoint = database.prepare("INSERT OR REPLACE INTO checkpoint VALUES (?, ?, ?)");
  const deleteCheckpoint = database.prepare("DELETE FROM checkpoint WHERE source = ? AND key = ?");
  const selectCheckpoints = database.prepare("SELECT key, value FROM checkpoint WHERE source = ?");
  const selectRecords = database.prepare(
    `SELECT sequence, bytes, kind, observed_at_ms, source, attributes, payload FROM record
     WHERE sequence > ? ORDER BY sequence LIMIT ?`,
  );
  const selectOldest = database.prepare("SELECT age_ms FROM record ORDER BY sequence LIMIT 1");
  const selectSince = database.prepare("SELECT sequence FROM record WHERE age_ms >= ? ORDER BY sequence LIMIT 1");
  for (const statement of [sumThrough, selectRecords]) statement.setReturnArrays(true);

  let state: QueueState = readState(database);

  const changesOf = (draft: QueueState): QueueTransaction => ({
    state: draft,
    insert: (record, bytes) => {
      const attributes = JSON.stringify(record.attributes);
      const { kind, observedAtMs, source, payload } = record;
      insertRecord.run(draft.nextSequence, bytes, draft.ageMs, kind, observedAtMs, source, attributes, payload);
      draft.nextSequence += 1;
      draft.records += 1;
      draft.bytes += bytes;
    },
    deleteThrough: (sequence) => {
      const [records, bytes] = rowOf(sumThrough.get(sequence)).map(numberOf);
      deleteRecords.run(sequence);
      draft.records -= records ?? 0;
      draft.bytes -= bytes ?? 0;
      return records ?? 0;
    },
    setAside: (sequence, code, message, bounds) => {
      insertDeadLetter.run(draft.queueId, code, message, draft.wallMs, sequence);
      const removed = deleteRecord.get(sequence);
      if (removed === undefined) return false;
      draft.records -= 1;
      draft.bytes -= numberOf(removed.bytes);
      draft.deadLetters += 1;
      trimDeadLetters.run(bounds.recordsMax, bounds.bytesMax);
      return true;
    },
    putCheckpoint: ({ source, key, value }) => {
      if (value === null) deleteCheckpoint.run(source, key);
      else putCheckpoint.run(source, key, value);
    },
  });

  return {
    get state() {
      return state;
    },
    transaction: (change) => {
      const draft = { ...state, ...now() };
      begin.run();
      try {
        change(changesOf(draft));
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
    },
    read: (sequence, recordsMax, bytesMax) => {
      const records: QueuedRecord[] = [];
      let total = 0;
      for (const row of selectRecords.iterate(sequence, recordsMax)) {
        const record = recordOf(rowOf(row));
        total += record.bytes;
        if (records.length > 0 && total > bytesMax) break;
        records.push(record);
      }
      return records;
    },
    oldestAgeMs: () => {
      const row = selectOldest.get();
      return row === undefined ? null : numberOf(row.age_ms);
    },
    firstSequenceSince: (ageMs) => {
      const row = selectSince.get(ageMs);
      return row === undefined ? null : numberOf(row.sequence);
    },
    checkpoints: (source) =>
      new Map(selectCheckpoints.all(source).map((row) => [String(row.key), String(row.value)] as const)),
    close: () => database.close(),
  };
};

const recordOf = (row: readonly SQLOutputValue[]): QueuedRecord => ({
  sequence: numberOf(row[0]),
  bytes: numberOf(row[1]),
  kind: String(row[2]),
  observedAtMs: numberOf(row[3]),
  source: String(row[4]),
  attributes: JSON.parse(String(row[5])),
  payload: bytesOf(row[6]),
});

/** The type declarations do not know `setReturnArrays`. */
const rowOf = (row: unknown): readonly SQLOutputValue[] => {
  if (!Array.isArray(row)) throw new TypeError("the statement does not return arrays");
  return row;
};

const numberOf = (value: SQLOutputValue | undefined): number => {
  if (typeof value !== "number") throw new TypeError("the queue's database holds something else than a number");
  return value;
};

const bytesOf = (value: SQLOutputValue | undefined): Uint8Array => {
  if (!(value instanceof Uint8Array)) throw new TypeError("the queue's database holds something else than bytes");
  return value;
};
