import type { Clock } from "#kit/clock.ts";

/** The size and the timeout of requests, adapted to the backend. */
export type Pace = ReturnType<typeof createPace>;

const timeoutFactor = 4;
const timeoutMsMax = 300_000;
const bytesMin = 64 * 1024;
/** The number of consecutive fast responses after which the timeout is reset and requests grow again. */
const fastMin = 32;

/**
 * Adapts requests to a backend that is slower than the timeout and may store a request that is then sent again. Each timeout makes the next one
 * four times as long, up to five minutes, and requests half as large. So a line is sent at most `1 + log4(300 s / timeout)` times, rounded up, to
 * a backend that responds within five minutes: four times with ten seconds.
 */
export const createPace = (
  { bytesMax, timeoutMs }: { bytesMax: number; timeoutMs: number },
  clock: Pick<Clock, "monotonic">,
) => {
  const longest = Math.max(timeoutMs, timeoutMsMax);
  const smallest = Math.min(bytesMax, bytesMin);
  let bytes = bytesMax;
  let timeout = timeoutMs;
  let fast = 0;
  return {
    clock,
    bytesMax: () => bytes,
    timeoutMs: () => timeout,
    /** Records that a request with this timeout had no response in time. */
    timedOut(used: number) {
      fast = 0;
      // Only one of several concurrent requests changes the pace.
      if (used < timeout) return;
      timeout = Math.min(longest, timeout * timeoutFactor);
      bytes = Math.max(smallest, Math.floor(bytes / 2));
    },
    /** Records the response time of a request. */
    answered(ms: number) {
      fast = ms < timeoutMs / 2 ? fast + 1 : 0;
      if (fast < fastMin) return;
      fast = 0;
      timeout = timeoutMs;
      bytes = Math.min(bytesMax, bytes * 2);
    },
  };
};
