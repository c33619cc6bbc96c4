import type { Core } from "../core.ts";
import { advanceRollout } from "../domain/rollout/advance.ts";
import { findOpenRollouts } from "../store/rollout/rollouts.ts";

/** Steps of one rollout in a run, so that a large wave does not delay the others. */
const stepsMax = 100;

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
