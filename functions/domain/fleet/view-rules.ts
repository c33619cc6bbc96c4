import { Problem } from "#functions/problems.ts";
import { findOutagesAt } from "#functions/store/fleet/core-sessions.ts";
import { findPastNames, findThresholdsAt, hostsAt } from "#functions/store/fleet/history.ts";
import type { ViewedFleet } from "#functions/store/fleet/select-hosts.ts";
import { dayMs } from "#kit/clock.ts";
import { withoutHistory } from "#proto/fleet-health/filter.ts";
import type { FleetSort } from "#proto/fleet-health/vocabulary.ts";
import type { ViewQuery } from "./report.ts";
import { countedOutages, readFleetRules, type ViewCore, withNames } from "./rules.ts";

/**
 * Returns the fleet with the rules that decide the states: without a time, as of the data in core's memory; for a time, those of then, with
 * the hosts as they were (docs/history.md). Throws 422 `no_history` for a time before history begins, and `filter_without_history` for a
 * view of the past that needs data without a history.
 */
export const readFleetView = async (
  core: ViewCore,
  { at, filter = {}, ...order }: Partial<ViewQuery> & { sort?: FleetSort },
): Promise<ViewedFleet> => {
  const { db, clock, config } = core;
  if (at === undefined) {
    const hosts = await core.fleetColumns?.current();
    const ageMs = hosts ? clock.monotonic() - hosts.readAt : 0;
    return { db, rules: await readFleetRules(core, new Date(clock.now() - ageMs)), hosts };
  }
  const now = new Date(clock.now());
  const keptFrom = now.getTime() - config.stateRetentionDays * dayMs;
  if (at > now) throw new Problem("no_history", { detail: "The time is not past" });
  const thresholds = at.getTime() < keptFrom ? undefined : await findThresholdsAt(db, at);
  if (thresholds === undefined)
    throw new Problem("no_history", { detail: "History does not go back so far" });
  const { staleAfterSeconds, forwardingSeconds } = thresholds;
  const reason = withoutHistory(
    { filter, ...order },
    {
      at: at.getTime(),
      thresholds: { stale_after_seconds: staleAfterSeconds, forwarding_seconds: forwardingSeconds },
    },
  );
  if (reason !== undefined) throw new Problem("filter_without_history", { detail: reason });
  const past = hostsAt(at);
  const [hosts, counted] = await Promise.all([
    core.pastColumns?.at(at, now),
    findOutagesAt(db, at),
  ]);
  const names = hosts
    ? { versions: hosts.usedNames("version"), platforms: hosts.usedNames("platform") }
    : await findPastNames(db, past);
  const outages = countedOutages(counted, thresholds);
  return { db, rules: { ...withNames({ now: at, thresholds, outages }, names), past }, hosts };
};
