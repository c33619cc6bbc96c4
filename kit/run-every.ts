import type { Clock } from "./clock.ts";
import type { Log } from "./log.ts";

/** What a job runs on. */
export interface JobOptions {
  name: string;
  intervalMs: number;
  /** How long to wait after so many failures in a row, 1 and up; never longer than the interval. Absent: the interval. */
  retryMs?: (failures: number) => number;
  clock: Clock;
  signal: AbortSignal;
  log: Pick<Log, "info" | "error">;
}

/**
 * Runs `tick` at once and then every `intervalMs` after the previous run ended, until the signal aborts; resolves then. A tick
 * that fails is logged and retried, at the next interval or as `retryMs` says: a job never ends the process. Ticks are idempotent, and
 * never overlap.
 */
export const runEvery = async (
  { name, intervalMs, retryMs = () => intervalMs, clock, signal, log }: JobOptions,
  tick: (signal: AbortSignal) => Promise<object | undefined>,
): Promise<void> => {
  let failures = 0;
  while (!signal.aborted) {
    let waitMs = intervalMs;
    try {
      const report = await tick(signal);
      failures = 0;
      if (report !== undefined) log.info({ job: name, ...report }, "job done");
    } catch (err) {
      if (signal.aborted) return;
      failures += 1;
      waitMs = Math.min(intervalMs, retryMs(failures));
      log.error({ job: name, err, retry_seconds: Math.round(waitMs / 1000) }, "job failed; it runs again");
    }
    await clock.sleep(waitMs, signal).catch(() => undefined);
  }
};
