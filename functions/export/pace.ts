import type { Clock } from "#kit/clock.ts";

/** The size and the timeout of requests, as the backend needs them. */
export interface Pace {
  bytesMax(): number;
  timeoutMs(): number;
  /** A request with this timeout had no response in time. */
  timedOut(timeoutMs: number): void;
  /** A request was answered after so long. */
  answered(ms: number): void;
  clock: Pick<Clock, "monotonic">;
}

const timeoutFactor = 4;
const timeoutMsMax = 300_000;
const bytesMin = 64 * 1024;
/** After so many fast responses in a row the timeout is reset and requests grow again. */
const fastMin = 32;

/**
 * Adapts requests to a backend that is slower than the timeout, which may have stored what is then sent again: each timeout makes the next one
 * four times as long, up to five minutes, and requests half as large. So a line is sent at most `1 + log4(300 s / timeout)` times, rounded
 * up, before a backend that answers within five minutes has answered: four times with ten seconds.
 */
export const createPace = (
  { bytesMax, timeoutMs }: { bytesMax: number; timeoutMs: number },
  clock: Pick<Clock, "monotonic">,
): Pace => {
  const longest = Math.max(timeoutMs, timeoutMsMax);
  const smallest = Math.min(bytesMax, bytesMin);
  let bytes = bytesMax;
  let timeout = timeoutMs;
  let fast = 0;
  return {
    clock,
    bytesMax: () => bytes,
    timeoutMs: () => timeout,
    timedOut(used) {
      fast = 0;
      // Of several requests that were under way together, one changes the pace.
      if (used < timeout) return;
      timeout = Math.min(longest, timeout * timeoutFactor);
      bytes = Math.max(smallest, Math.floor(bytes / 2));
    },
    answered(ms) {
      fast = ms < timeoutMs / 2 ? fast + 1 : 0;
      if (fast < fastMin) return;
      fast = 0;
      timeout = timeoutMs;
      bytes = Math.min(bytesMax, bytes * 2);
    },
  };
};
