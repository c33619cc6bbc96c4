import { join } from "node:path";
import { acquireFileLock } from "../files/lock.ts";

/** Another process is changing the same identity directory. */
export class IdentityLockedError extends Error {
  override readonly name = "IdentityLockedError";
}

/**
 * Runs `action` while no other process may change the identity directory. Throws `IdentityLockedError` at once if another one
 * does.
 */
export const withIdentityLock = async <Result>(directory: string, action: () => Promise<Result>): Promise<Result> => {
  const lock = acquireFileLock(join(directory, "lock"));
  if (lock === null)
    throw new IdentityLockedError("another process is enrolling or renewing with this identity directory");
  try {
    return await action();
  } finally {
    lock.release();
  }
};
