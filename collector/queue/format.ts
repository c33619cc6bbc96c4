import { DatabaseSync, type SQLOutputValue } from "node:sqlite";
import { QueueDamagedError, QueueVersionError, sqliteCodeOf } from "./errors.ts";
import { queueFiles, syncDirectory } from "./files.ts";
import { moveRecords } from "./move-records.ts";
import type { Checkpoint } from "./record.ts";

/*
 * What a queue's database holds, in this format and in those before it. A format is never changed, only followed by another: hosts
 * keep their queue over an update, and a collector that does not know a format leaves it alone.
 */

const formatVersion = 4;

/** Each row is a block (block.ts) of the records from `sequence` to `last_sequence`; `bytes` is what they count together. */
const blockTable = `
CREATE TABLE block (
  sequence INTEGER PRIMARY KEY, last_sequence INTEGER NOT NULL, bytes INTEGER NOT NULL, age_ms INTEGER NOT NULL,
  record_index BLOB NOT NULL, envelopes BLOB NOT NULL
) STRICT;
`;

/** How a queue of the format before is brought up to the next; each is its own transaction's part and loses nothing. */
const upgrades: Record<number, string> = {
  1: "ALTER TABLE state ADD COLUMN quarantined INTEGER NOT NULL DEFAULT 0",
  2: `ALTER TABLE state ADD COLUMN quarantined_records INTEGER NOT NULL DEFAULT 0;
      ALTER TABLE record ADD COLUMN checksum INTEGER`,
  // What is in the table `record` is moved over afterwards.
  3: blockTable,
};

const tables = `
CREATE TABLE state (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  queue_id BLOB NOT NULL, next_sequence INTEGER NOT NULL, records INTEGER NOT NULL, bytes INTEGER NOT NULL,
  dropped_records INTEGER NOT NULL, dead_letters INTEGER NOT NULL, age_ms INTEGER NOT NULL, wall_ms INTEGER NOT NULL,
  quarantined INTEGER NOT NULL, quarantined_records INTEGER NOT NULL
) STRICT;
${blockTable}
CREATE TABLE dead_letter (
  id INTEGER PRIMARY KEY, sequence INTEGER NOT NULL, queue_id BLOB NOT NULL, code TEXT NOT NULL, message TEXT NOT NULL,
  set_aside_at_ms INTEGER NOT NULL, bytes INTEGER NOT NULL, kind TEXT NOT NULL, observed_at_ms INTEGER NOT NULL,
  source TEXT NOT NULL, attributes TEXT NOT NULL, payload BLOB NOT NULL
) STRICT;
CREATE TABLE checkpoint (
  source TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (source, key)
) STRICT, WITHOUT ROWID;
`;

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
  /** Records that were in these, as far as their own state told. */
  quarantinedRecords: number;
}

/** What a new database begins with. */
export interface QueueOrigin extends Omit<QueueState, "records" | "bytes"> {
  checkpoints: readonly Checkpoint[];
}

/** A row that no queue wrote. */
export class MalformedRowError extends Error {}

/** The `state` row of an open database, of any format. */
export const readState = (database: DatabaseSync): QueueState => {
  const row = database.prepare("SELECT * FROM state").get();
  if (row === undefined) throw new MalformedRowError("the queue's database has no state row");
  return {
    queueId: Uint8Array.from(bytesOf(row.queue_id)),
    nextSequence: numberOf(row.next_sequence),
    records: numberOf(row.records),
    bytes: numberOf(row.bytes),
    droppedRecords: numberOf(row.dropped_records),
    deadLetters: numberOf(row.dead_letters),
    ageMs: numberOf(row.age_ms),
    wallMs: numberOf(row.wall_ms),
    // Not there in the first formats, which a reader beside a collector of before may meet.
    quarantined: numberOf(row.quarantined ?? 0),
    quarantinedRecords: numberOf(row.quarantined_records ?? 0),
  };
};

/** The `ageMs` of the oldest record in an open database, of any format; null if it holds none. */
export const readOldestAge = (database: DatabaseSync): number | null => {
  const table = database.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'record'").get() ? "record" : "block";
  const row = database.prepare(`SELECT age_ms FROM ${table} ORDER BY sequence LIMIT 1`).get();
  return row === undefined ? null : numberOf(row.age_ms);
};

/** All checkpoints of an open database. */
export const readCheckpoints = (database: DatabaseSync): Checkpoint[] =>
  database
    .prepare("SELECT source, key, value FROM checkpoint")
    .all()
    .map(({ source, key, value }) => ({ source: String(source), key: String(key), value: String(value) }));

/** What a damaged database in `dir` still tells of itself; what it does not tell is left out. */
export const readRemains = (dir: string): { state?: QueueState; checkpoints?: Checkpoint[] } => {
  const attempt = <Found>(read: (database: DatabaseSync) => Found): Found | undefined => {
    try {
      using database = new DatabaseSync(queueFiles(dir).database, { readOnly: true });
      return read(database);
    } catch {
      return undefined;
    }
  };
  const [state, checkpoints] = [attempt(readState), attempt(readCheckpoints)];
  return { ...(state && { state }), ...(checkpoints && { checkpoints }) };
};

/** Brings an open database to this format; makes the tables of a new one. Throws what `isDamage` knows, or `QueueVersionError`. */
export const prepareDatabase = (database: DatabaseSync, dir: string, origin: () => QueueOrigin): void => {
  // 16 KiB pages: a third faster than 4 KiB for lines, twice as fast for payloads of a few tens of kilobytes.
  database.exec("PRAGMA page_size = 16384; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL");
  const version = numberOf(database.prepare("PRAGMA user_version").get()?.user_version);
  if (version > formatVersion) throw new QueueVersionError(dir, version, formatVersion);
  const isNew = version === 0 && database.prepare("SELECT 1 FROM sqlite_schema").get() === undefined;
  if (isNew) {
    database.exec(`BEGIN IMMEDIATE; ${tables}`);
    insertOrigin(database, origin());
    database.exec(`PRAGMA user_version = ${formatVersion}; COMMIT`);
    syncDirectory(dir);
    return;
  }
  if (version <= 0) throw new QueueDamagedError(dir, { cause: new Error("it does not say its format") });
  const [fault] = Object.values(database.prepare("PRAGMA quick_check(1)").get() ?? {});
  if (fault !== "ok") throw new QueueDamagedError(dir, { cause: new Error(String(fault)) });
  for (let from = version; from < formatVersion; from++)
    database.exec(`BEGIN IMMEDIATE; ${upgrades[from] ?? ""}; PRAGMA user_version = ${from + 1}; COMMIT`);
  moveRecords(database);
  // A killed collector may leave a commit that was written and not yet synced. It counts from here on, so it has to be on the disk.
  database.exec("PRAGMA wal_checkpoint(TRUNCATE)");
};

const insertOrigin = (database: DatabaseSync, origin: QueueOrigin): void => {
  const { queueId, nextSequence, droppedRecords, deadLetters, ageMs, wallMs, quarantined, quarantinedRecords } = origin;
  database
    .prepare("INSERT INTO state VALUES (1, ?, ?, 0, 0, ?, ?, ?, ?, ?, ?)")
    .run(queueId, nextSequence, droppedRecords, deadLetters, ageMs, wallMs, quarantined, quarantinedRecords);
  const insert = database.prepare("INSERT INTO checkpoint VALUES (?, ?, ?)");
  for (const { source, key, value } of origin.checkpoints) insert.run(source, key, value);
};

/**
 * SQLITE_CORRUPT and SQLITE_NOTADB; or the database lacks a table, a row or a column that every queue has, or holds another type, or a
 * number that no queue counts up to.
 */
export const isDamage = (error: unknown): boolean => {
  if (error instanceof MalformedRowError || error instanceof QueueDamagedError) return true;
  // node:sqlite, of an integer beyond 2^53.
  if (error instanceof RangeError && "code" in error && error.code === "ERR_OUT_OF_RANGE") return true;
  const code = sqliteCodeOf(error);
  return code === 11 || code === 26 || (code === 1 && error instanceof Error && error.message.startsWith("no such "));
};

/** A value that must be a number. */
export const numberOf = (value: SQLOutputValue | undefined): number => {
  if (typeof value !== "number") throw new MalformedRowError("something else than a number");
  return value;
};

/** A value that must be bytes. */
export const bytesOf = (value: SQLOutputValue | undefined): Uint8Array => {
  if (!(value instanceof Uint8Array)) throw new MalformedRowError("something else than bytes");
  return value;
};
