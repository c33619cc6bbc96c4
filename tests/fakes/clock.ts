import type { Clock } from "../../kit/clock.ts";

/** A clock that stands still until a test moves it. */
export interface TestClock extends Clock {
  /** Moves wall and monotonic time on and wakes, in their order, the sleepers whose time has come. */
  advance(ms: number): Promise<void>;
  /** Sets wall time alone, as an operator or NTP would: sleepers and `monotonic` do not notice. */
  set(now: number): void;
}

interface Sleeper {
  at: number;
  wake(): void;
}

/** Noon of a fixed day unless told: tests never see the machine's time. */
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
  };
};
