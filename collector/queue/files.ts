import { accessSync, constants, mkdirSync } from "node:fs";
import { join } from "node:path";

/** Returns the paths of a queue's files. SQLite keeps `-wal` and `-shm` beside the database. */
export const queueFiles = (dir: string) => ({
  database: join(dir, "queue.db"),
  lock: join(dir, "queue.lock"),
  /** The high-water mark of the database (mark.ts). */
  mark: join(dir, "queue.mark"),
});

/**
 * Creates `dir` with mode 0700 unless it exists. Throws the file system's error (EROFS, EACCES) if this process cannot write there:
 * SQLite would only report that it cannot open a file.
 */
export const createQueueDirectory = (dir: string): void => {
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  accessSync(dir, constants.W_OK);
};
