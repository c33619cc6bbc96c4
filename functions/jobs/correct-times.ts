import type { Core } from "../core.ts";
import { correctHostTimes, correctRollouts } from "../store/fleet/times-ahead.ts";

/**
 * Corrects the times that are ahead of the database's clock, which was ahead when they were stored, or that of an earlier core. Returns
 * undefined when there were none.
 */
export const correctTimes = async ({
  db,
  clock,
}: Pick<Core, "db" | "clock">): Promise<{ hosts: number; rollouts: number } | undefined> => {
  const now = new Date(clock.now());
  const rollouts = await correctRollouts(db, now);
  let hosts = 0;
  let after = "00000000-0000-0000-0000-000000000000";
  for (;;) {
    const corrected = await db.transaction((tx) => correctHostTimes(tx, now, after));
    if (corrected === undefined) return hosts + rollouts === 0 ? undefined : { hosts, rollouts };
    hosts += corrected.hosts;
    after = corrected.last;
  }
};
