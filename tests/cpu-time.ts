/**
 * Starts to count CPU milliseconds of this thread; a call of what it gives tells how many it has been. Some systems count in whole
 * ticks of up to 10 ms: never more than the time on the wall.
 */
export const countCpuMilliseconds = (): (() => number) => {
  const [before, startedAt] = [process.threadCpuUsage(), performance.now()];
  return () => {
    const passed = performance.now() - startedAt;
    const { user, system } = process.threadCpuUsage(before);
    return Math.min(passed, (user + system) / 1000);
  };
};

/**
 * CPU milliseconds of this thread that `task` takes, the least of three runs: what a bound on work is held to. Unlike the time on the
 * wall it does not grow with what else the machine does.
 */
export const cpuMillisecondsOf = async (task: () => unknown): Promise<number> => {
  const samples: number[] = [];
  for (let run = 0; run < 3; run++) {
    const counted = countCpuMilliseconds();
    await task();
    samples.push(counted());
  }
  return Math.min(...samples);
};
