import type { Clock } from "../../kit/clock.ts";

/** Longer than a forwarder's longest pause (30 s) after an outage, on a machine that is busy with other things. */
const patienceMs = 75_000;

/**
 * Asks `probe` every `everyMs` until it gives something other than undefined, and gives that. A probe that throws counts as not
 * yet. Throws after `timeoutMs`, with what was waited for and the last failure.
 */
export const waitUntil = async <Found>(
  options: { what: string; clock: Clock; signal: AbortSignal; timeoutMs?: number; everyMs?: number },
  probe: () => Promise<Found | undefined>,
): Promise<Found> => {
  const { what, clock, signal, timeoutMs = patienceMs, everyMs = 50 } = options;
  const deadline = clock.monotonic() + timeoutMs;
  let cause: unknown;
  while (clock.monotonic() < deadline) {
    signal.throwIfAborted();
    try {
      const found = await probe();
      if (found !== undefined) return found;
      cause = undefined;
    } catch (error) {
      cause = error;
    }
    await clock.sleep(everyMs, signal);
  }
  throw new Error(`${what}: not within ${timeoutMs / 1000} s`, { cause });
};
