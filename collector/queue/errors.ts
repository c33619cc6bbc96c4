import { errorCode } from "#kit/describe-error.ts";
import { sqliteCodeOf } from "../files/lock.ts";

/** Another process uses the queue's directory (case Q8). */
export class QueueLockedError extends Error {
  override readonly name = "QueueLockedError";

  constructor(dir: string) {
    super(
      `another process is using the queue in ${dir}; stop it first, or give this one a buffer.dir of its own`,
    );
  }
}

/** The queue stayed full until the caller's signal aborted. Nothing was stored: the caller still owns the records. */
export class QueueFullError extends Error {
  override readonly name = "QueueFullError";

  constructor(options?: ErrorOptions) {
    super("the queue is full", options);
  }
}

/** The queue was closed before it stored the records. */
export class QueueClosedError extends Error {
  override readonly name = "QueueClosedError";

  constructor() {
    super("the queue is closed");
  }
}

/** The queue on disk has a format that this collector does not read (case Q10). Nothing on disk was changed. */
export class QueueVersionError extends Error {
  override readonly name = "QueueVersionError";

  constructor(dir: string, found: number, known: number) {
    super(
      `the queue in ${dir} has format ${found}, and this collector reads format ${known} alone; run the collector version that wrote it, or move the directory away to start with an empty queue`,
    );
  }
}

/** The queue's database is corrupt: truncated, overwritten, or with flipped bits. */
export class QueueCorruptError extends Error {
  override readonly name = "QueueCorruptError";

  constructor(dir: string, options?: ErrorOptions) {
    super(`the queue in ${dir} is corrupt`, options);
  }
}

/** The disk returns errors when the queue's database is read (case K6). Nothing on disk was changed: it may be intact. */
export class QueueUnreadableError extends Error {
  override readonly name = "QueueUnreadableError";

  constructor(dir: string, options?: ErrorOptions) {
    super(
      `the queue in ${dir} cannot be read, since its disk returns errors; it is kept as it is: check the disk`,
      options,
    );
  }
}

/** SQLITE_READONLY, SQLITE_IOERR and SQLITE_FULL, or a disk that is full or fails: nothing was stored, and a later attempt may succeed. */
export const isDiskUnwritable = (error: unknown): boolean =>
  error instanceof QueueUnreadableError ||
  [8, 10, 13].includes(sqliteCodeOf(error) ?? 0) ||
  ["ENOSPC", "EDQUOT", "EROFS"].includes(errorCode(error) ?? "");
