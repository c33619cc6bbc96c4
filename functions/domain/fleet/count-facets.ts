import { shareNextRun } from "../../../kit/share-next-run.ts";
import type { FleetFilter } from "../../../proto/fleet-health/filter.ts";
import { countFleet, type FleetCounts } from "../../store/fleet/facets.ts";
import type { FleetRules } from "../../store/fleet/rows.ts";
import { readFleetRules, type ViewCore, viewsShared } from "./rules.ts";

/**
 * Creates the function that returns the counts that the page draws, under a filter with its states (docs/fleet-health.md). Concurrent
 * calls with one filter share them.
 */
export const createFacetCounts = (core: ViewCore) =>
  shareNextRun(
    async (filter: FleetFilter): Promise<{ rules: FleetRules; counts: FleetCounts }> => {
      const rules = await readFleetRules(core);
      return { rules, counts: await countFleet(core.db, rules, filter, core.fleetColumns) };
    },
    (filter) => JSON.stringify(filter),
    viewsShared(core),
  );
