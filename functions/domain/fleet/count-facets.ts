import type { FleetRules } from "#functions/store/fleet/conditions.ts";
import { countFleet, type FleetCounts } from "#functions/store/fleet/facets.ts";
import { shareNextRun } from "#kit/share-next-run.ts";
import type { ViewQuery } from "./report.ts";
import type { ViewCore } from "./rules.ts";
import { readFleetView } from "./view-rules.ts";

/**
 * Creates the function that counts hosts for the page's charts, under a filter with its states (docs/fleet-health.md). Concurrent calls
 * with one filter share a result. Throws as reports do.
 */
export const createFacetCounts = (core: ViewCore) =>
  shareNextRun(
    async (query: ViewQuery): Promise<{ rules: FleetRules; counts: FleetCounts }> => {
      const view = await readFleetView(core, query);
      return { rules: view.rules, counts: await countFleet(view, query.filter) };
    },
    (query) => JSON.stringify(query),
    core.viewsShared,
  );
