import { runEvery } from "../../kit/run-every.ts";
import type { Core } from "../core.ts";
import { correctHistory, correctHostTimes, correctRollouts } from "../store/fleet/times-ahead.ts";
import { recordClock } from "../store/retention/retention-clock.ts";
import { correctMessages } from "../store/watch/messages.ts";

const intervalMs = 60_000;

/** Corrects every minute what was stored while a clock was ahead, until the signal aborts: the database's, or that of an earlier core. */
export const correctTimesAhead = (core: Pick<Core, "db" | "clock" | "log">, signal: AbortSignal): Promise<void> =>
  runEvery({ name: "times ahead of the clock", intervalMs, clock: core.clock, signal, log: core.log }, () =>
    correctTimes(core),
  );

/** Corrects the times that are ahead of the database's clock. Returns undefined when there were none. */
export const correctTimes = async ({
  db,
  clock,
}: Pick<Core, "db" | "clock">): Promise<{ hosts: number; rollouts: number } | undefined> => {
  const now = new Date(clock.now());
  // A jump ahead holds retention, and what is stated of hours, within a minute.
  await recordClock(db, now);
  const rollouts = await correctRollouts(db, now);
  await correctMessages(db, now);
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
