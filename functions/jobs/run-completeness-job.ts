import { uuidv7 } from "../../kit/entropy.ts";
import { runEvery } from "../../kit/run-every.ts";
import type { Core } from "../core.ts";
import { type SettlingCore, settleHours } from "../domain/completeness/settle-hours.ts";

const intervalMs = 10_000;

/**
 * Settles the states of hosts' hours until the signal aborts. One hour at a time after an outage, so that a clock that jumps ahead is
 * noticed (retention-clock.ts) before many hours that have not been are settled.
 */
export const runCompletenessJob = (
  core: SettlingCore & Pick<Core, "log" | "entropy">,
  signal: AbortSignal,
): Promise<void> => {
  const { clock, log, config } = core;
  const settling = { owner: uuidv7(core), retentionDays: config.accountRetentionDays };
  return runEvery({ name: "completeness", intervalMs, clock, signal, log }, () => settleHours(core, settling));
};
