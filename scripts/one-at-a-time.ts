import { acquireFileLock, type FileLock } from "../collector/files/lock.ts";
import { systemClock } from "../kit/clock.ts";

/**
 * Does `work` while no other process, nor another call in this one, does its own under the same `lockFile`; waits for them as long as it
 * takes. A process that dies gives up its turn.
 */
export const oneAtATime = async <Result>(lockFile: string, work: () => Promise<Result>): Promise<Result> => {
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
