import { countFleet, type FleetCounts } from "#functions/store/fleet/facets.ts";
import type { FleetRules } from "#functions/store/fleet/rows.ts";
import { shareNextRun } from "#kit/share-next-run.ts";
import type { ViewQuery } from "./report.ts";
import type { ViewCore } from "./rules.ts";
import { readViewRules } from "./view-rules.ts";

/**
 * Creates the function that counts hosts for the page's charts, under a filter with its states (docs/fleet-health.md). Concurrent calls
 * with one filter share a result. Throws as reports do.
 */
export const createFacetCounts = (core: ViewCore) =>
  shareNextRun(
    async (view: ViewQuery): Promise<{ rules: FleetRules; counts: FleetCounts }> => {
      const { rules, columns } = await readViewRules(core, view);
      return { rules, counts: await countFleet(core.db, rules, view.filter, columns) };
    },
    (query) => JSON.stringify(query),
    core.viewsShared,
  );
