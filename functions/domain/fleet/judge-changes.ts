import type { ReadCore } from "#functions/core.ts";
import type { Executor } from "#functions/store/database/database.ts";
import {
  beginHour,
  type ChangeRow,
  extendChange,
  type FoundChange,
  findChangesOfHour,
  findChangesSince,
  findLastHour,
  findOpenChanges,
  hostsOfChange,
  insertChanges,
  refuseChanges,
  storeComparison,
} from "#functions/store/fleet/changes.ts";
import { countedAfter } from "#functions/store/fleet/counted-time.ts";
import { findFollowedHosts, keptHours } from "#functions/store/fleet/host-hours.ts";
import { settledMs } from "#functions/store/fleet/past/checkpoints.ts";
import { dayMs, hourMs } from "#kit/clock.ts";
import { type Entropy, orderedUuidv7 } from "#kit/entropy.ts";
import { changesPerDay, comparedHostsMin } from "#proto/fleet-health/comparison.ts";
import { soakFrom, soakSeconds } from "./browse-changes.ts";
import { compareFollowed, unchangedMatches } from "./compare-followed.ts";
import { readCountingRules } from "./rules.ts";

/**
 * Searches each hour that has ended for changes of hosts without a rollout, and compares each change that has soaked with unchanged hosts.
 * Each step is a transaction that no core repeats. Also searches hours in which no core ran, as long as figures are kept. A failed
 * comparison does not stop others: throws its error after the last one.
 */
export const judgeChanges = async (core: ReadCore & { entropy: Entropy }): Promise<undefined> => {
  const { db, clock } = core;
  const end = Math.floor((clock.now() - settledMs) / hourMs);
  const last = (await findLastHour(db, end - 1)) ?? end - 2;
  for (let hour = Math.max(last + 1, end - keptHours); hour < end; hour += 1)
    await db.transaction((tx) => searchHour(tx, core, hour));
  const rules = await readCountingRules(core);
  const errors: unknown[] = [];
  for (const change of await findOpenChanges(db, rules.now))
    if (countedAfter(soakFrom(change), soakSeconds, rules.outages) <= rules.now.getTime())
      await storeComparison(db, change.id, async (tx) => {
        const span = { from: change.beganAt, until: change.endedAt };
        const isEnough = change.hosts >= comparedHostsMin;
        const hosts = isEnough
          ? await findFollowedHosts(tx, hostsOfChange(change, rules.now), span, rules)
          : [];
        const comparison = compareFollowed(hosts, unchangedMatches, rules.now);
        return isEnough ? comparison : { ...comparison, changed: change.hosts };
      }).catch((error: unknown) => errors.push(error));
  if (errors.length > 0) throw errors[0];
};

/**
 * Stores the changes of an hour, unless a core has. Stores new ones up to the limits of a day, so that labels that keep changing fill no
 * table.
 */
const searchHour = async (tx: Executor, ids: Parameters<typeof orderedUuidv7>[0], hour: number) => {
  if (!(await beginHour(tx, hour))) return;
  const { found, count } = await findChangesOfHour(tx, hour);
  if (count === 0) return;
  const dayStart = new Date((hour + 1) * hourMs - dayMs);
  const classesOfDay = (await findChangesSince(tx, dayStart)).map(classOf);
  const begun: Omit<FoundChange, "openId">[] = [];
  for (const { openId, ...change } of found)
    if (openId !== null) await extendChange(tx, openId, change);
    else if (classesOfDay.filter((each) => each === classOf(change)).length < changesPerDay) {
      classesOfDay.push(classOf(change));
      begun.push(change);
    }
  // Changes with the most hosts get the newest ids, so that lists begin with them.
  const rows = begun
    .toReversed()
    .map((change) => ({ ...change, id: orderedUuidv7(ids), comparison: null }));
  await insertChanges(tx, rows);
  const extended = found.filter(({ openId }) => openId !== null);
  await refuseChanges(tx, hour, count - begun.length - extended.length);
};

/** Separates changes with few hosts, so that they do not use up the limit of those that can have a verdict. */
const classOf = ({ kind, hosts }: Pick<ChangeRow, "kind" | "hosts">) =>
  `${kind} ${hosts >= comparedHostsMin}`;
