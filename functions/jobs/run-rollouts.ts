import { runEvery } from "../../kit/run-every.ts";
import type { Core } from "../core.ts";
import { advanceRollout } from "../domain/rollout/advance.ts";
import { findOpenRollouts } from "../store/rollout/rollouts.ts";

const intervalMs = 5000;
/** Steps of one rollout in a run, so that a large wave does not delay the others. */
const stepsMax = 100;

/** Advances rollouts every five seconds until the signal aborts. Several cores may run it: one of them takes each step. */
export const runRollouts = (
  core: Pick<Core, "config" | "db" | "clock" | "entropy" | "log">,
  signal: AbortSignal,
): Promise<void> => {
  const { clock, log } = core;
  return runEvery({ name: "rollouts", intervalMs, clock, signal, log }, async () => {
    const steps = await advanceRollouts(core, signal);
    return steps === 0 ? undefined : { steps };
  });
};

/**
 * Advances every rollout that has not ended as far as it goes now, and returns the number of steps. Throws the first failure of a
 * rollout, once it has advanced the others.
 */
export const advanceRollouts = async (
  core: Pick<Core, "config" | "db" | "clock" | "entropy">,
  signal?: AbortSignal,
): Promise<number> => {
  let steps = 0;
  const failures: unknown[] = [];
  for (const id of await findOpenRollouts(core.db)) {
    try {
      for (let step = 0; step < stepsMax && signal?.aborted !== true; step += 1) {
        if ((await advanceRollout(core, id)) !== "more") break;
        steps += 1;
      }
    } catch (error) {
      failures.push(error);
    }
  }
  if (failures.length > 0) throw failures[0];
  return steps;
};
