import { lstatSync, truncateSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { createPrivateFileSync, UnsafeFileError } from "./private-files.ts";

/** An acquired lock. */
export interface FileLock {
  release(): void;
}

/**
 * Acquires the lock file `path` for this process, creating it if it is missing. Returns null while another process, or another
 * call in this one, has it. The kernel releases it when the process ends, however it ends. Node has no flock: SQLite's exclusive
 * transaction is one, and never writes to the file.
 */
export const acquireFileLock = (path: string): FileLock | null => {
  createPrivateFileSync(path);
  if (!lstatSync(path).isFile()) throw new UnsafeFileError("a lock file must be a regular file");
  try {
    return lockDatabase(path);
  } catch (error) {
    if (isBusy(error)) return null;
    if (!isCorrupt(error)) throw error;
    // No process can lock a file that SQLite cannot read.
    truncateSync(path);
    return lockDatabase(path);
  }
};

const lockDatabase = (path: string): FileLock => {
  const database = new DatabaseSync(path, { timeout: 0 });
  try {
    database.exec("BEGIN EXCLUSIVE");
  } catch (error) {
    database.close();
    throw error;
  }
  return { release: () => database.close() };
};

/** Returns the primary result code of an SQLite error (sqlite.org/rescode.html), or null for any other error. */
export const sqliteCodeOf = (error: unknown): number | null =>
  error instanceof Error && "errcode" in error && typeof error.errcode === "number"
    ? error.errcode & 0xff
    : null;

/** SQLITE_BUSY and SQLITE_LOCKED. */
const isBusy = (error: unknown) => [5, 6].includes(sqliteCodeOf(error) ?? 0);

/** SQLITE_CORRUPT and SQLITE_NOTADB. */
const isCorrupt = (error: unknown) => [11, 26].includes(sqliteCodeOf(error) ?? 0);
