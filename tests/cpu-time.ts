/**
 * CPU milliseconds of this thread that `task` takes, the least of three runs: what a bound on work is held to. Unlike the time on the
 * wall it does not grow with what else the machine does.
 */
export const cpuMillisecondsOf = async (task: () => unknown): Promise<number> => {
  const samples: number[] = [];
  for (let run = 0; run < 3; run++) {
    const before = process.threadCpuUsage();
    await task();
    const { user, system } = process.threadCpuUsage(before);
    samples.push((user + system) / 1000);
  }
  return Math.min(...samples);
};
