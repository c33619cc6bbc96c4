import type { Core } from "#functions/core.ts";
import { Problem } from "#functions/problems.ts";
import { type DescribedRollout, findRollout } from "#functions/store/rollout/rollouts.ts";

/** Returns a rollout. Throws 404 `not_found`. */
export const requireRollout = async (
  { db }: Pick<Core, "db">,
  id: string,
): Promise<DescribedRollout> => {
  const row = await findRollout(db, id);
  if (row === undefined) throw new Problem("not_found", { detail: "No such rollout" });
  return row;
};
