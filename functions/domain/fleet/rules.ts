import type { Core, ReadCore } from "#functions/core.ts";
import type {
  CountingRules,
  FleetRules,
  FleetThresholds,
} from "#functions/store/fleet/conditions.ts";
import { findOutages } from "#functions/store/fleet/core-sessions.ts";
import type { Outage } from "#functions/store/fleet/counted-time.ts";
import { findFleetNames, isSupported } from "#functions/store/fleet/versions.ts";
import { fleetThresholds } from "./thresholds.ts";

/** The parts of core that share views of the fleet. */
export type ViewCore = ReadCore & Pick<Core, "viewsShared" | "fleetColumns" | "pastColumns">;

/** Returns outages with the time from which silence counts again. */
export const countedOutages = (
  outages: readonly Omit<Outage, "countedFrom">[],
  { returnSeconds }: FleetThresholds,
): Outage[] =>
  outages.map((outage) => ({
    ...outage,
    countedFrom: outage.endedAt && new Date(outage.endedAt.getTime() + returnSeconds * 1000),
  }));

/** Returns the rules that decide when a host is silent, and reads when core could not receive, even if that has just ended. */
export const readCountingRules = async (
  { db, clock, config }: ReadCore,
  now = new Date(clock.now()),
): Promise<CountingRules> => {
  const thresholds = fleetThresholds(config);
  return { now, thresholds, outages: countedOutages(await findOutages(db, now), thresholds) };
};

/** Returns the rules that decide the states now, or at `now`, and reads the fleet's versions and platforms for them. */
export const readFleetRules = async (core: ReadCore, now?: Date): Promise<FleetRules> => {
  const [rules, names] = await Promise.all([readCountingRules(core, now), findFleetNames(core.db)]);
  return withNames(rules, names);
};

/** Returns rules with the fleet's versions and platforms. */
export const withNames = (
  rules: CountingRules,
  { versions, platforms }: { versions: readonly string[]; platforms: readonly string[] },
): FleetRules => ({
  ...rules,
  versions,
  platforms,
  unsupportedVersions: unsupportedOf(versions, rules.thresholds),
});

/** An agent that speaks OpAMP numbers its versions as it likes, unless there is a minimum. */
const unsupportedOf = (
  versions: readonly string[],
  { versionMin, otelcolVersionMin = null }: FleetThresholds,
): FleetRules["unsupportedVersions"] => {
  const below = (minimum: string | null) =>
    versions.filter((version) => !isSupported(version, minimum));
  return {
    "svc-collector": below(versionMin),
    otelcol: otelcolVersionMin === null ? [] : below(otelcolVersionMin),
  };
};
