import { constants } from "node:fs";
import { open } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";

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
  await (await open(path, constants.O_WRONLY | constants.O_CREAT | constants.O_NOFOLLOW, 0o600)).close();
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
