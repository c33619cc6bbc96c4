import { type Clock, systemClock } from "../../kit/clock.ts";

/** A clock that runs by itself, for tests of real sockets and files that cannot wait for what takes minutes. */
export interface SkippingClock extends Clock {
  /** Lets `ms` pass at once: wakes whoever would have slept until then, and moves wall and monotonic time on. */
  skip(ms: number): void;
}

/** Runs as the machine's, `speed` times as fast, until it skips. */
export const createSkippingClock = (speed = 1): SkippingClock => {
  const [wallStart, start] = [systemClock.now(), systemClock.monotonic()];
  let skipped = 0;
  const sleepers = new Set<() => void>();
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
        sleepers.add(wake);
        signal?.addEventListener("abort", wake, { once: true });
        // A timer may be early by a fraction of a millisecond.
        await systemClock
          .sleep(Math.max(0, Math.ceil((end - monotonic()) / speed)), pause.signal)
          .catch(() => undefined);
        signal?.removeEventListener("abort", wake);
        sleepers.delete(wake);
      }
      signal?.throwIfAborted();
    },
    skip: (ms) => {
      skipped += ms;
      for (const wake of [...sleepers]) wake();
    },
  };
};
