import { acquireFileLock, type FileLock } from "#collector/files/lock.ts";
import { systemClock } from "#kit/clock.ts";

/** Runs `work` while no other call, in this process or another, runs its own under `lockFile`. The lock is released when its process exits. */
export const oneAtATime = async <Result>(
  lockFile: string,
  work: () => Promise<Result>,
): Promise<Result> => {
  const lock = await hold(lockFile);
  try {
    return await work();
  } finally {
    lock.release();
  }
};

const hold = async (lockFile: string): Promise<FileLock> => {
  for (;;) {
    const lock = acquireFileLock(lockFile);
    if (lock !== null) return lock;
    await systemClock.sleep(20);
  }
};
