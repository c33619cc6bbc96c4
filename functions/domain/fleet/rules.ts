import { dayMs } from "../../../kit/clock.ts";
import type { SharedFor } from "../../../kit/share-next-run.ts";
import type { Core } from "../../core.ts";
import { Problem } from "../../problems.ts";
import type { FleetColumns } from "../../store/fleet/columns/fleet-columns.ts";
import { findOutages, findOutagesAt } from "../../store/fleet/core-sessions.ts";
import type { Outage } from "../../store/fleet/counted-time.ts";
import { findPastNames, findThresholdsAt, hostsAt } from "../../store/fleet/history.ts";
import type { CountingRules, FleetRules, FleetThresholds } from "../../store/fleet/rows.ts";
import { findFleetNames, isSupported } from "../../store/fleet/versions.ts";
import { fleetThresholds } from "./thresholds.ts";

/** The parts of core that read the fleet. */
export type FleetCore = Pick<Core, "db" | "clock" | "config">;

/** The parts of core that share views of the fleet. */
export type ViewCore = FleetCore & Pick<Core, "viewMs" | "fleetColumns" | "pastColumns">;

/** Returns for how long a view is shared. It shows when it was computed. */
export const viewsShared = ({ viewMs, clock }: ViewCore): SharedFor | undefined =>
  viewMs === undefined ? undefined : { ms: viewMs, clock };

const counted = (outages: readonly Omit<Outage, "countedFrom">[], { returnSeconds }: FleetThresholds): Outage[] =>
  outages.map((outage) => ({
    ...outage,
    countedFrom: outage.endedAt && new Date(outage.endedAt.getTime() + returnSeconds * 1000),
  }));

/** Returns the rules that decide when a host is silent, and reads when core could not receive, also if that has just ended. */
export const readCountingRules = async ({ db, clock, config }: FleetCore): Promise<CountingRules> => {
  const now = new Date(clock.now());
  const thresholds = fleetThresholds(config);
  return { now, thresholds, outages: counted(await findOutages(db, now), thresholds) };
};

/** Returns the rules that decide the states now, and reads the versions and platforms of the fleet that they refer to. */
export const readFleetRules = async (core: FleetCore): Promise<FleetRules> => {
  const [rules, names] = await Promise.all([readCountingRules(core), findFleetNames(core.db)]);
  return withNames(rules, names);
};

const withNames = (
  rules: CountingRules,
  { versions, platforms }: { versions: readonly string[]; platforms: readonly string[] },
): FleetRules => ({
  ...rules,
  ...{ versions, platforms },
  unsupportedVersions: versions.filter((version) => !isSupported(version, rules.thresholds.versionMin)),
});

/** The rules of a view, and the hosts that they decide on in core's memory. */
export interface ViewRules {
  rules: FleetRules;
  columns: FleetColumns | undefined;
}

/**
 * Returns the rules that decide the states now or, given a time, those that decided them then, on the hosts as they were (docs/history.md).
 * Throws 422 `no_history` for a time that history does not reach.
 */
export const readViewRules = async (core: ViewCore, at: Date | undefined): Promise<ViewRules> => {
  if (at === undefined) return { rules: await readFleetRules(core), columns: core.fleetColumns };
  const { db, clock, config } = core;
  const now = new Date(clock.now());
  const keptFrom = now.getTime() - config.stateRetentionDays * dayMs;
  if (at > now) throw new Problem("no_history", { detail: "The time is not past" });
  const thresholds = at.getTime() < keptFrom ? undefined : await findThresholdsAt(db, at);
  if (thresholds === undefined) throw new Problem("no_history", { detail: "History does not go back so far" });
  const past = hostsAt(at);
  const columns = core.pastColumns?.at(at, now);
  const hosts = await columns?.current();
  const names = hosts
    ? { versions: [...hosts.names("version")], platforms: [...hosts.names("platform")] }
    : await findPastNames(db, past);
  const outages = counted(await findOutagesAt(db, at), thresholds);
  return { rules: { ...withNames({ now: at, thresholds, outages }, names), past }, columns };
};
