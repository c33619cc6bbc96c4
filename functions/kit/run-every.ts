import type { Clock } from "./clock.ts";

/** Where a job tells what it did. */
export interface JobLog {
  info(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

/**
 * Runs `tick` at once and then every `intervalMs` after the previous run ended, until the signal aborts; resolves then. A tick
 * that fails is logged and retried at the next interval: a job never ends the process. Ticks are idempotent, and never overlap.
 */
export const runEvery = async (
  options: { name: string; intervalMs: number; clock: Clock; signal: AbortSignal; log: JobLog },
  tick: (signal: AbortSignal) => Promise<object | undefined>,
): Promise<void> => {
  const { name, intervalMs, clock, signal, log } = options;
  while (!signal.aborted) {
    try {
      const report = await tick(signal);
      if (report !== undefined) log.info({ job: name, ...report }, "job done");
    } catch (err) {
      if (signal.aborted) return;
      log.error({ job: name, err }, "job failed; it runs again at its next interval");
    }
    await clock.sleep(intervalMs, signal).catch(() => undefined);
  }
};
