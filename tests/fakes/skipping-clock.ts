import { type Clock, systemClock } from "#kit/clock.ts";

/** A clock that runs, and that a test with real sockets and files can move ahead by minutes. */
export interface SkippingClock extends Clock {
  /** Advances wall and monotonic time by `ms` at once, and wakes the sleepers that are due. */
  skip(ms: number): void;
  /** Whether anything sleeps that asked for between `msMin` and `msMax`. */
  sleeps(msMin: number, msMax: number): boolean;
}

/** Creates a clock that runs `speed` times as fast as the machine's. */
export const createSkippingClock = (speed = 1): SkippingClock => {
  const wallStart = systemClock.now();
  const start = systemClock.monotonic();
  let skipped = 0;
  const sleepers = new Set<{ ms: number; wake(): void }>();
  const passed = () => (systemClock.monotonic() - start) * speed + skipped;
  const monotonic = () => start + passed();
  return {
    now: () => Math.floor(wallStart + passed()),
    monotonic,
    sleep: async (ms, signal) => {
      const end = monotonic() + ms;
      while (monotonic() < end) {
        signal?.throwIfAborted();
        const pause = new AbortController();
        const wake = () => pause.abort();
        const sleeper = { ms, wake };
        sleepers.add(sleeper);
        signal?.addEventListener("abort", wake, { once: true });
        // A timer may be early by a fraction of a millisecond.
        await systemClock
          .sleep(Math.max(0, Math.ceil((end - monotonic()) / speed)), pause.signal)
          .catch(() => undefined);
        signal?.removeEventListener("abort", wake);
        sleepers.delete(sleeper);
      }
      signal?.throwIfAborted();
    },
    skip: (ms) => {
      skipped += ms;
      for (const { wake } of [...sleepers]) wake();
    },
    sleeps: (msMin, msMax) => [...sleepers].some(({ ms }) => ms >= msMin && ms <= msMax),
  };
};
