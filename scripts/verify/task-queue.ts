/** Runs tasks in the order they are given, at most `atOnceMax` at a time. */
export const createTaskQueue = (atOnceMax: number): (<Result>(task: () => Promise<Result>) => Promise<Result>) => {
  const waiting: (() => void)[] = [];
  let running = 0;
  return async (task) => {
    if (running >= atOnceMax) await new Promise<void>((resolve) => waiting.push(resolve));
    running++;
    try {
      return await task();
    } finally {
      running--;
      waiting.shift()?.();
    }
  };
};
