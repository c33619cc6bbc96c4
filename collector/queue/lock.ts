import { truncateSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { QueueLockedError, sqliteCodeOf } from "./errors.ts";
import { createPrivateFile } from "./files.ts";

/**
 * Holds `path` for this process alone, until `release` or the process's end, however it ends. Node has no flock: an SQLite file
 * in an exclusive transaction is one, since the kernel drops its lock with the process, and nothing is ever written to it.
 */
export const holdLock = (path: string, dir: string): { release(): void } => {
  createPrivateFile(path);
  try {
    return lockDatabase(path);
  } catch (cause) {
    if (isBusy(cause)) throw new QueueLockedError(dir, { cause });
    if (!isDamaged(cause)) throw cause;
    // Nobody can hold what SQLite cannot read.
    truncateSync(path);
    return lockDatabase(path);
  }
};

const lockDatabase = (path: string): { release(): void } => {
  const database = new DatabaseSync(path, { timeout: 0 });
  try {
    database.exec("BEGIN EXCLUSIVE");
  } catch (error) {
    database.close();
    throw error;
  }
  return { release: () => database.close() };
};

/** SQLITE_BUSY and SQLITE_LOCKED, with their extended forms. */
const isBusy = (error: unknown): boolean => [5, 6].includes(sqliteCodeOf(error) ?? 0);

/** SQLITE_CORRUPT and SQLITE_NOTADB. */
const isDamaged = (error: unknown): boolean => [11, 26].includes(sqliteCodeOf(error) ?? 0);
