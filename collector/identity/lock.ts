import { constants } from "node:fs";
import { lstat, open } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { errorCode } from "../../kit/error-code.ts";
import { UnsafeFileError } from "./private-files.ts";

/** Another process is changing the same identity. */
export class IdentityLockedError extends Error {
  override readonly name = "IdentityLockedError";
}

/**
 * Runs `action` while this process alone may change the identity directory; throws `IdentityLockedError` at once if another
 * does. Node has no flock: SQLite's exclusive transaction is a lock that the kernel drops with its process, and it writes nothing.
 */
export const withIdentityLock = async <Result>(directory: string, action: () => Promise<Result>): Promise<Result> => {
  const path = join(directory, "lock");
  await makeLockFile(path);
  const database = new DatabaseSync(path, { timeout: 0 });
  try {
    try {
      database.exec("BEGIN EXCLUSIVE");
    } catch (cause) {
      throw new IdentityLockedError("another process is enrolling or renewing with this identity directory", { cause });
    }
    return await action();
  } finally {
    database.close();
  }
};

/** An existing file is not opened: closing any descriptor of it would drop the lock that this process may hold (POSIX). */
const makeLockFile = async (path: string): Promise<void> => {
  try {
    await (await open(path, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL, 0o600)).close();
  } catch (error) {
    if (errorCode(error) !== "EEXIST") throw error;
    if (!(await lstat(path)).isFile()) throw new UnsafeFileError("the lock of an identity directory must be a file");
  }
};
