import type { LabContext } from "./context.ts";

/** Longer than the collector's longest pause (30 s) after an outage, on a busy machine. */
const usualTimeoutMs = 75_000;

/**
 * Calls `probe` every `everyMs` until it returns something other than undefined, and returns that. A probe that throws is retried.
 * Throws after `timeoutMs`, with the last failure as the cause.
 */
export const waitUntil = async <Found>(
  options: Pick<LabContext, "clock" | "signal"> & {
    what: string;
    timeoutMs?: number;
    everyMs?: number;
  },
  probe: () => Promise<Found | undefined>,
): Promise<Found> => {
  const { what, clock, signal, timeoutMs = usualTimeoutMs, everyMs = 50 } = options;
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

/** Waits until each URL answers with a status of 2xx. */
export const untilOk = (
  { clock, signal }: Pick<LabContext, "clock" | "signal">,
  what: string,
  urls: readonly string[],
): Promise<boolean> =>
  waitUntil({ what, clock, signal }, async () => {
    for (const url of urls) {
      const response = await fetch(url, { signal: AbortSignal.timeout(5_000) });
      if (!response.ok) throw new Error(`${url}: ${response.status} ${await response.text()}`);
    }
    return true;
  });
