/**
 * Starts to count CPU milliseconds of this thread; returns a function that returns the count. Some systems count in ticks of up to
 * 10 ms, so that the count is limited to the elapsed time.
 */
export const countCpuMilliseconds = (): (() => number) => {
  const [before, startedAt] = [process.threadCpuUsage(), performance.now()];
  return () => {
    const passed = performance.now() - startedAt;
    const { user, system } = process.threadCpuUsage(before);
    return Math.min(passed, (user + system) / 1000);
  };
};

/** Returns the CPU milliseconds of `task`, the least of three runs, which does not depend on the load of the machine. */
export const cpuMillisecondsOf = async (task: () => unknown): Promise<number> => {
  const samples: number[] = [];
  for (let run = 0; run < 3; run++) {
    const counted = countCpuMilliseconds();
    await task();
    samples.push(counted());
  }
  return Math.min(...samples);
};
