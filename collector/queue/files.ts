import { accessSync, constants, mkdirSync } from "node:fs";
import { join } from "node:path";

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
