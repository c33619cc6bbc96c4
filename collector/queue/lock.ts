import { DatabaseSync } from "node:sqlite";
import { QueueLockedError } from "./errors.ts";
import { createPrivateFile } from "./files.ts";

/**
 * Holds `path` for this process alone, until `release` or the process's end, however it ends. Node has no flock: an SQLite file
 * in an exclusive transaction is one, since the kernel drops its lock with the process, and nothing is ever written to it.
 */
export const holdLock = (path: string, dir: string): { release(): void } => {
  createPrivateFile(path);
  const database = new DatabaseSync(path, { timeout: 0 });
  try {
    database.exec("BEGIN EXCLUSIVE");
  } catch (cause) {
    database.close();
    if (isBusy(cause)) throw new QueueLockedError(dir, { cause });
    throw cause;
  }
  return { release: () => database.close() };
};

/** SQLITE_BUSY and SQLITE_LOCKED, with their extended forms. */
const isBusy = (error: unknown): boolean => {
  if (!(error instanceof Error) || !("errcode" in error) || typeof error.errcode !== "number") return false;
  const primary = error.errcode & 0xff;
  return primary === 5 || primary === 6;
};
