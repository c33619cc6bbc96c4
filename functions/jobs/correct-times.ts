import type { Core } from "../core.ts";
import {
  correctHistory,
  correctHostTimes,
  correctOperatorTimes,
  correctRollouts,
} from "../store/fleet/times-ahead.ts";
import { recordClock } from "../store/retention/retention-clock.ts";
import { correctMessages, correctSilences } from "../store/watch/messages.ts";

/**
 * Corrects the times that are ahead of the database's clock, which was ahead when they were stored, or that of an earlier core. Returns
 * undefined when there were none.
 */
export const correctTimes = async ({
  db,
  clock,
}: Pick<Core, "db" | "clock">): Promise<{ hosts: number; rollouts: number } | undefined> => {
  const now = new Date(clock.now());
  // A jump ahead holds retention, and what is stated of hours, within a minute.
  await recordClock(db, now);
  const rollouts = await correctRollouts(db, now);
  await correctMessages(db, now);
  await correctSilences(db, now);
  await correctOperatorTimes(db, now);
  // Before the hosts and after them, as their correction is a change of what they had.
  await correctHistory(db, now);
  let hosts = 0;
  let after = "00000000-0000-0000-0000-000000000000";
  for (;;) {
    const corrected = await db.transaction((tx) => correctHostTimes(tx, now, after));
    if (corrected === undefined) break;
    hosts += corrected.hosts;
    after = corrected.last;
  }
  if (hosts > 0) await correctHistory(db, now);
  return hosts + rollouts === 0 ? undefined : { hosts, rollouts };
};
