import type { FleetFilter } from "../../../proto/fleet-health/filter.ts";
import type { Core } from "../../core.ts";
import { countFleet, type FleetCounts } from "../../store/fleet-facets.ts";
import type { FleetRules } from "../../store/fleet-rows.ts";
import { readFleetRules } from "./rules.ts";
import { fleetThresholds } from "./thresholds.ts";

/** The counts that the page draws, under a filter, its states included (contract, section 6, "facets"). */
export const countFacets = async (
  { db, clock, config }: Pick<Core, "db" | "clock" | "config">,
  filter: FleetFilter,
): Promise<{ rules: FleetRules; counts: FleetCounts }> => {
  const thresholds = fleetThresholds(config);
  const rules = await readFleetRules(db, { now: new Date(clock.now()), thresholds });
  return { rules, counts: await countFleet(db, rules, filter) };
};
