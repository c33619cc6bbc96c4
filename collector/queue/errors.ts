/** Another process holds the queue's directory (case Q8). */
export class QueueLockedError extends Error {
  constructor(dir: string, options?: ErrorOptions) {
    super(
      `another process is using the queue in ${dir}; stop it first, or give this one a buffer.dir of its own`,
      options,
    );
    this.name = "QueueLockedError";
  }
}

/** The queue had no room until the caller's signal aborted. Nothing was stored: the caller still owns the records. */
export class QueueFullError extends Error {
  constructor(options?: ErrorOptions) {
    super("the queue is full", options);
    this.name = "QueueFullError";
  }
}

/** The queue was closed before the records were stored. */
export class QueueClosedError extends Error {
  constructor() {
    super("the queue is closed");
    this.name = "QueueClosedError";
  }
}

/** The queue on disk was written by a newer collector; this one leaves it untouched. */
export class QueueVersionError extends Error {
  constructor(dir: string, found: number, known: number) {
    super(
      `the queue in ${dir} has format ${found}, and this collector knows formats up to ${known}; run the newer collector`,
    );
    this.name = "QueueVersionError";
  }
}

/** The queue on disk is not what a queue wrote: torn, overwritten, or with bits turned over. */
export class QueueDamagedError extends Error {
  constructor(dir: string, options?: ErrorOptions) {
    super(`the queue in ${dir} is damaged`, options);
    this.name = "QueueDamagedError";
  }
}

/** The primary result code of an SQLite error (sqlite.org/rescode.html), or null for any other error. */
export const sqliteCodeOf = (error: unknown): number | null =>
  error instanceof Error && "errcode" in error && typeof error.errcode === "number" ? error.errcode & 0xff : null;

/** SQLITE_FULL, SQLITE_READONLY, SQLITE_IOERR: nothing was stored, and what is stored later may well be. */
export const isDiskUnwritable = (error: unknown): boolean => [8, 10, 13].includes(sqliteCodeOf(error) ?? 0);
