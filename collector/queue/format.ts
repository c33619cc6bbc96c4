/*
 * The queue's format on disk. Invariants:
 * - A released format never changes: a change of the tables or of a block is a new format number. Tables that other versions need not know,
 *   such as those of accounts (account-table.ts), are no part of it.
 * - A database of another format is refused before anything is written, so the collector version that wrote it can still use it.
 */

import { accessSync, constants, mkdirSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync, type SQLOutputValue } from "node:sqlite";
import type { Entropy } from "#kit/entropy.ts";
import { snakeCase } from "#proto/values.ts";
import { sqliteCodeOf } from "../files/lock.ts";
import { fsyncDirectorySync } from "../files/private-files.ts";
import { QueueCorruptError, QueueVersionError } from "./errors.ts";
import type { Checkpoint } from "./record.ts";

const formatVersion = 6;

/** A row of `block` holds the records from `sequence` to `last_sequence` (block.ts); `bytes` is the sum of their sizes. */
const tables = `
CREATE TABLE state (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  queue_id BLOB NOT NULL, next_sequence INTEGER NOT NULL, records INTEGER NOT NULL, bytes INTEGER NOT NULL,
  dropped_records INTEGER NOT NULL, dead_letters INTEGER NOT NULL, age_ms INTEGER NOT NULL, wall_ms INTEGER NOT NULL,
  quarantined INTEGER NOT NULL, quarantined_records INTEGER NOT NULL,
  host_id TEXT NOT NULL, sessions BLOB NOT NULL, answered_session BLOB NOT NULL, is_answered INTEGER NOT NULL,
  acked_through INTEGER NOT NULL, sent_through INTEGER NOT NULL, forks INTEGER NOT NULL
) STRICT;
CREATE TABLE block (
  sequence INTEGER PRIMARY KEY, last_sequence INTEGER NOT NULL, bytes INTEGER NOT NULL, age_ms INTEGER NOT NULL,
  checksum INTEGER NOT NULL, record_index BLOB NOT NULL, envelopes BLOB NOT NULL
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

/** A row that no queue wrote. */
export class MalformedRowError extends Error {}

/** Returns a value that must be a number. */
export const numberOf = (value: SQLOutputValue | undefined): number => {
  if (typeof value !== "number") throw new MalformedRowError("a value is not a number");
  return value;
};

/** Returns a value that must be bytes. */
export const bytesOf = (value: SQLOutputValue | undefined): Uint8Array => {
  if (!(value instanceof Uint8Array)) throw new MalformedRowError("a value is not bytes");
  return value;
};

const copiedBytesOf = (value: SQLOutputValue | undefined) => Uint8Array.from(bytesOf(value));

/** The single row of the table `state`. */
export interface QueueState {
  queueId: Uint8Array<ArrayBuffer>;
  nextSequence: number;
  records: number;
  bytes: number;
  droppedRecords: number;
  deadLetters: number;
  ageMs: number;
  wallMs: number;
  /** Corrupt databases that were quarantined in this directory, ever. */
  quarantined: number;
  /** Records in those databases, as far as their own state was readable. */
  quarantinedRecords: number;
  /** The host that the queue was opened for in core; empty before. */
  hostId: string;
  /** The history of sessions under this queue id, oldest first, 16 bytes each (sessions.ts). */
  sessions: Uint8Array<ArrayBuffer>;
  /** The last one that core has answered; empty before. */
  answeredSession: Uint8Array<ArrayBuffer>;
  /** Whether core has answered a session since the queue was opened: 1, else 0. */
  isAnswered: number;
  /** Everything at or below it was acknowledged under this queue id, and is deleted. */
  ackedThrough: number;
  /** The highest sequence that can have been sent under this queue id before the queue was opened. */
  sentThrough: number;
  /** How often this queue continued under a new queue id, because core knows a copy of it. */
  forks: number;
}

/** The initial values of a queue with a new id. */
export const unsent = {
  sessions: new Uint8Array(),
  answeredSession: new Uint8Array(),
  isAnswered: 0,
  ackedThrough: 0,
  sentThrough: 0,
} satisfies Partial<QueueState>;

/** The initial values of a new database. */
export interface QueueOrigin extends Omit<QueueState, "records" | "bytes"> {
  checkpoints: readonly Checkpoint[];
}

/** Returns the origin of a queue that never was. */
export const newOrigin = (
  entropy: Entropy,
  reading: { ageMs: number; wallMs: number },
): QueueOrigin => ({
  queueId: entropy.bytes(16),
  nextSequence: 1,
  droppedRecords: 0,
  deadLetters: 0,
  ...reading,
  quarantined: 0,
  quarantinedRecords: 0,
  hostId: "",
  ...unsent,
  forks: 0,
  checkpoints: [],
});

/** Throws `QueueVersionError` unless the database has this format or is new. */
export const checkFormat = (database: DatabaseSync, dir: string): void => {
  const version = readVersion(database);
  // A queue always has a positive number: without one, the header is corrupt or the database is new.
  if (version > 0 && version !== formatVersion)
    throw new QueueVersionError(dir, version, formatVersion);
};

const readVersion = (database: DatabaseSync): number =>
  numberOf(database.prepare("PRAGMA user_version").get()?.user_version);

/** Converts each column of `state`. A member has the name of its column in camelCase. */
const stateReaders: {
  [Name in keyof QueueState]: (value: SQLOutputValue | undefined) => QueueState[Name];
} = {
  queueId: copiedBytesOf,
  nextSequence: numberOf,
  records: numberOf,
  bytes: numberOf,
  droppedRecords: numberOf,
  deadLetters: numberOf,
  ageMs: numberOf,
  wallMs: numberOf,
  quarantined: numberOf,
  quarantinedRecords: numberOf,
  hostId: String,
  sessions: copiedBytesOf,
  answeredSession: copiedBytesOf,
  isAnswered: numberOf,
  ackedThrough: numberOf,
  sentThrough: numberOf,
  forks: numberOf,
};

const stateNames = Object.keys(stateReaders) as (keyof QueueState)[];

/** Reads the `state` row. */
export const readState = (database: DatabaseSync): QueueState => {
  const row = database.prepare("SELECT * FROM state").get();
  if (row === undefined) throw new MalformedRowError("the queue's database has no state row");
  const values = stateNames.map((name) => [name, stateReaders[name](row[snakeCase(name)])]);
  return Object.fromEntries(values);
};

/** Prepares the statement that stores the state row, except what its creation fixes. */
export const prepareSaveState = (database: DatabaseSync): ((state: QueueState) => void) => {
  const saved = stateNames.filter((name) => !/^quarantined/.test(name));
  const assignments = saved.map((name) => `${snakeCase(name)} = ?`);
  const save = database.prepare(`UPDATE state SET ${assignments.join()}`);
  return (state) => void save.run(...saved.map((name) => state[name]));
};

/** Reads the `ageMs` of the oldest record; null if there is none. */
export const readOldestAge = (database: DatabaseSync): number | null => {
  const row = database.prepare("SELECT age_ms FROM block ORDER BY sequence LIMIT 1").get();
  return row === undefined ? null : numberOf(row.age_ms);
};

/** Reads all checkpoints. */
export const readCheckpoints = (database: DatabaseSync): Checkpoint[] =>
  database
    .prepare("SELECT source, key, value FROM checkpoint")
    .all()
    .map(({ source, key, value }) => ({
      source: String(source),
      key: String(key),
      value: String(value),
    }));

/** Reads a corrupt database in `dir`; returns undefined where it cannot be read. */
export const readDamaged = <Found>(
  dir: string,
  read: (database: DatabaseSync) => Found,
): Found | undefined => {
  try {
    using database = new DatabaseSync(queueFiles(dir).database, { readOnly: true });
    return read(database);
  } catch {
    return undefined;
  }
};

/** Creates the tables of a new database, and checks an existing one. Throws `QueueVersionError`, or an error for which `isCorruption` is true. */
export const prepareQueueDatabase = (
  database: DatabaseSync,
  dir: string,
  origin: () => QueueOrigin,
): void => {
  checkFormat(database, dir);
  // 16 KiB pages: a third faster than 4 KiB for lines, twice as fast for payloads of a few tens of kilobytes.
  database.exec("PRAGMA page_size = 16384; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL");
  if (readVersion(database) !== formatVersion) {
    if (
      readVersion(database) !== 0 ||
      database.prepare("SELECT 1 FROM sqlite_schema").get() !== undefined
    )
      throw new QueueCorruptError(dir, { cause: new Error("its format number is missing") });
    createTables(database, origin());
    fsyncDirectorySync(dir);
    return;
  }
  const [fault] = Object.values(database.prepare("PRAGMA quick_check(1)").get() ?? {});
  if (fault !== "ok") throw new QueueCorruptError(dir, { cause: new Error(String(fault)) });
  // A killed collector may leave a commit that is written and not yet synced. From here on it counts, so it must be on disk.
  database.exec("PRAGMA wal_checkpoint(TRUNCATE)");
};

/** Creates the tables of a new database. */
export const createTables = (database: DatabaseSync, origin: QueueOrigin): void => {
  database.exec(`BEGIN IMMEDIATE; ${tables}`);
  insertOrigin(database, origin);
  database.exec(`PRAGMA user_version = ${formatVersion}; COMMIT`);
};

const insertOrigin = (database: DatabaseSync, origin: QueueOrigin): void => {
  const { quarantined, quarantinedRecords } = origin;
  database
    .prepare(
      "INSERT INTO state VALUES (1, x'', 0, 0, 0, 0, 0, 0, 0, ?, ?, '', x'', x'', 0, 0, 0, 0)",
    )
    .run(quarantined, quarantinedRecords);
  prepareSaveState(database)({ ...origin, records: 0, bytes: 0 });
  const insert = database.prepare("INSERT INTO checkpoint VALUES (?, ?, ?)");
  for (const { source, key, value } of origin.checkpoints) insert.run(source, key, value);
};

/**
 * Reports whether an error means that the database is corrupt: SQLITE_CORRUPT, SQLITE_NOTADB, a table, row or column that every queue has
 * is missing, or a value has another type or is beyond what a queue counts up to.
 */
export const isCorruption = (error: unknown): boolean => {
  if (error instanceof MalformedRowError || error instanceof QueueCorruptError) return true;
  // node:sqlite throws it for an integer beyond 2^53.
  if (error instanceof RangeError && "code" in error && error.code === "ERR_OUT_OF_RANGE")
    return true;
  const code = sqliteCodeOf(error);
  return (
    code === 11 ||
    code === 26 ||
    (code === 1 && error instanceof Error && error.message.startsWith("no such "))
  );
};

/**
 * Returns the paths of a queue's files:
 *
 *   queue.db, -wal, -shm   SQLite: blocks of records, checkpoints, dead letters, one row of state (store.ts, block.ts)
 *   queue.mark             how far commits have come, to say what a damaged database lacks (watermark.ts)
 *   queue.lock             held by the process that has the queue open
 *   quarantine-N/          a corrupt database, kept whole (recovering-store.ts)
 */
export const queueFiles = (dir: string) => ({
  database: join(dir, "queue.db"),
  lock: join(dir, "queue.lock"),
  watermark: join(dir, "queue.mark"),
});

/**
 * Creates `dir` with mode 0700 unless it exists. Throws the file system's error (EROFS, EACCES) if this process cannot write there:
 * SQLite would only report that it cannot open a file.
 */
export const createQueueDirectory = (dir: string): void => {
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  accessSync(dir, constants.W_OK);
};
