import type { Clock } from "./clock.ts";
import { describeError } from "./describe-error.ts";
import type { Log } from "./log.ts";

/** The parameters and dependencies of a job. */
export interface JobOptions {
  name: string;
  intervalMs: number;
  /** Returns the wait after this number of failures in a row, from 1; at most the interval, which is the default. */
  retryMs?: (failures: number) => number;
  clock: Clock;
  signal: AbortSignal;
  log: Pick<Log, "info" | "error">;
}

/**
 * Runs `tick` at once and then `intervalMs` after each run ended, until the signal aborts. Logs a tick that fails, by its error when that is
 * another one than before, and retries it after `retryMs`: a job never ends the process. Ticks must be idempotent; they never overlap.
 */
export const runEvery = async (
  { name, intervalMs, retryMs = () => intervalMs, clock, signal, log }: JobOptions,
  tick: (signal: AbortSignal) => Promise<object | undefined>,
): Promise<void> => {
  let failures = 0;
  let lastFault = "";
  while (!signal.aborted) {
    let waitMs = intervalMs;
    try {
      const report = await tick(signal);
      failures = 0;
      lastFault = "";
      if (report !== undefined) log.info({ job: name, ...report }, "job done");
    } catch (err) {
      if (signal.aborted) return;
      failures += 1;
      waitMs = Math.min(intervalMs, retryMs(failures));
      const fault = JSON.stringify(describeError(err, 0));
      log.error(
        {
          job: name,
          ...(fault === lastFault ? { failures } : { err }),
          retry_seconds: Math.round(waitMs / 1000),
        },
        "job failed; retrying",
      );
      lastFault = fault;
    }
    await clock.sleep(waitMs, signal).catch(() => undefined);
  }
};

/** A job: its name, the wait after each run in milliseconds, and its tick, whose result is logged. */
export type Job = readonly [name: string, intervalMs: number, tick: Parameters<typeof runEvery>[1]];

/** Runs jobs concurrently until the signal aborts. */
export const runJobs = (
  options: Pick<JobOptions, "clock" | "signal" | "log">,
  jobs: readonly Job[],
) =>
  Promise.all(
    jobs.map(([name, intervalMs, tick]) => runEvery({ ...options, name, intervalMs }, tick)),
  );
