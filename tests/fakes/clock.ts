import type { Clock } from "#kit/clock.ts";

/** A clock that advances only when a test advances it. */
export interface TestClock extends Clock {
  /** Advances wall and monotonic time, and wakes the sleepers that are due, in order. */
  advance(ms: number): Promise<void>;
  /** Sets wall time only, as an operator or NTP does; sleepers and `monotonic` are not affected. */
  set(now: number): void;
  /** The time in `ms` milliseconds from now, as the API writes it. */
  iso(ms?: number): string;
}

interface Sleeper {
  at: number;
  wake(): void;
}

/** Creates a clock that starts at noon of a fixed day by default. */
export const createTestClock = (start = Date.UTC(2026, 5, 1, 12)): TestClock => {
  let wall = start;
  let monotonic = 0;
  let sleepers: Sleeper[] = [];
  const settle = () => new Promise<void>((resolve) => setImmediate(resolve));
  return {
    now: () => wall,
    monotonic: () => monotonic,
    sleep: (ms, signal) =>
      new Promise((resolve, reject) => {
        if (signal?.aborted) return reject(signal.reason);
        const stop = () => {
          sleepers = sleepers.filter((other) => other !== sleeper);
          reject(signal?.reason);
        };
        const sleeper: Sleeper = {
          at: monotonic + ms,
          wake: () => {
            signal?.removeEventListener("abort", stop);
            resolve();
          },
        };
        signal?.addEventListener("abort", stop, { once: true });
        sleepers.push(sleeper);
      }),
    async advance(ms) {
      const end = monotonic + ms;
      await settle();
      for (;;) {
        const next = sleepers.filter(({ at }) => at <= end).sort((a, b) => a.at - b.at)[0];
        if (next === undefined) break;
        sleepers = sleepers.filter((other) => other !== next);
        wall += next.at - monotonic;
        monotonic = next.at;
        next.wake();
        await settle();
      }
      wall += end - monotonic;
      monotonic = end;
    },
    set(now) {
      wall = now;
    },
    iso: (ms = 0) => new Date(wall + ms).toISOString(),
  };
};
