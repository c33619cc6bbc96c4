/**
 * Starts to count CPU milliseconds of this thread; returns a function that returns the count. Some systems count in ticks of up to
 * 10 ms, so that the count is limited to the elapsed time.
 */
export const countCpuMilliseconds = () => {
  const before = process.threadCpuUsage();
  const startedAt = performance.now();
  return () => {
    const passed = performance.now() - startedAt;
    const { user, system } = process.threadCpuUsage(before);
    return Math.min(passed, (user + system) / 1000);
  };
};

/**
 * Returns the CPU milliseconds of `task`: of the first run within `msMax`, or else the least of ten, since a tick, a collection of garbage or
 * another process slows some of them. What `prepare` makes for a run does not count.
 */
export const cpuMillisecondsOf = async <Input = void>(
  msMax: number,
  task: (input: Input) => unknown,
  prepare: () => Input = () => undefined as Input,
) => {
  let least = Number.POSITIVE_INFINITY;
  for (let run = 0; run < 10 && least >= msMax; run++) {
    const input = prepare();
    const counted = countCpuMilliseconds();
    await task(input);
    least = Math.min(least, counted());
  }
  return least;
};
