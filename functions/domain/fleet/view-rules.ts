import { Problem } from "#functions/problems.ts";
import type { FleetColumns } from "#functions/store/fleet/columns/fleet-columns.ts";
import { findOutagesAt } from "#functions/store/fleet/core-sessions.ts";
import { findPastNames, findThresholdsAt, hostsAt } from "#functions/store/fleet/history.ts";
import type { FleetRules } from "#functions/store/fleet/rows.ts";
import { dayMs } from "#kit/clock.ts";
import { withoutHistory } from "#proto/fleet-health/filter.ts";
import type { FleetSort } from "#proto/fleet-health/vocabulary.ts";
import type { ViewQuery } from "./report.ts";
import { countedOutages, readFleetRules, type ViewCore, withNames } from "./rules.ts";

/** The rules of a view, and the hosts in core's memory to which they apply. */
interface ViewRules {
  rules: FleetRules;
  columns: FleetColumns | undefined;
}

/**
 * Returns the rules that decide the states: without a time, as of the data in core's memory; for a time, the rules of then, with the hosts
 * as they were (docs/history.md). Throws 422 `no_history` for a time before history begins, and `filter_without_history` for a view of the
 * past that needs data without a history.
 */
export const readViewRules = async (
  core: ViewCore,
  { at, filter = {}, ...order }: Partial<ViewQuery> & { sort?: FleetSort },
): Promise<ViewRules> => {
  const { db, clock, config } = core;
  if (at === undefined) {
    const hosts = await core.fleetColumns?.current();
    const ageMs = hosts ? clock.monotonic() - hosts.readAt : 0;
    return {
      rules: await readFleetRules(core, new Date(clock.now() - ageMs)),
      columns: core.fleetColumns,
    };
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
  const columns = core.pastColumns?.at(at, now);
  const [hosts, counted] = await Promise.all([columns?.current(), findOutagesAt(db, at)]);
  const names = hosts
    ? { versions: hosts.usedNames("version"), platforms: hosts.usedNames("platform") }
    : await findPastNames(db, past);
  const outages = countedOutages(counted, thresholds);
  return { rules: { ...withNames({ now: at, thresholds, outages }, names), past }, columns };
};
