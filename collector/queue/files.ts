import { accessSync, closeSync, constants, fsyncSync, mkdirSync, openSync } from "node:fs";
import { join } from "node:path";

/** The files of a queue's directory. `-wal` and `-shm` beside the database are SQLite's own. */
export const queueFiles = (dir: string) => ({ database: join(dir, "queue.db"), lock: join(dir, "queue.lock") });

/**
 * Makes `dir` unless it exists, for its owner alone. Throws what is wrong (EROFS, EACCES) if nothing can be written there, where SQLite
 * would only say that it cannot open a file.
 */
export const createPrivateDirectory = (dir: string): void => {
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  accessSync(dir, constants.W_OK);
};

/**
 * Makes `path` unless it exists, readable by its owner alone; SQLite gives its side files the same mode. An existing file is not
 * even opened: closing any descriptor of a file drops every lock that this process holds on it (POSIX record locks).
 */
export const createPrivateFile = (path: string): void => {
  try {
    closeSync(openSync(path, "wx", 0o600));
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "EEXIST")) throw error;
  }
};

/** Makes the directory's entries durable: a file whose name is lost in a power cut is lost with its contents. */
export const syncDirectory = (dir: string): void => {
  const descriptor = openSync(dir, "r");
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
};
