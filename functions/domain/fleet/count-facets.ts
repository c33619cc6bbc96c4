import type { FleetRules } from "#functions/store/fleet/conditions.ts";
import { countFleet, type FleetCounts } from "#functions/store/fleet/facets.ts";
import { shareNextRun } from "#kit/share-next-run.ts";
import { facetValuesMax, heartbeatAgeBounds } from "#proto/fleet-health/facets.ts";
import type { ViewQuery } from "./report.ts";
import type { ViewCore } from "./rules.ts";
import { readFleetView } from "./view-rules.ts";

/**
 * Creates the function that counts hosts for the page's charts, under a filter with its states (docs/fleet-health.md). Concurrent calls
 * with one filter share a result. Throws as reports do.
 */
export const createFacetCounts = (core: ViewCore) =>
  shareNextRun(
    async (query: ViewQuery) => {
      const view = await readFleetView(core, query);
      const counts = await countFleet(view, query.filter);
      return {
        rules: view.rules,
        counts: {
          ...counts,
          versions: mostFrequent(counts.versions),
          platforms: mostFrequent(counts.platforms),
          heartbeatAges: ageBuckets(view.rules, counts),
        },
      };
    },
    (query) => JSON.stringify(query),
    core.viewsShared,
  );

/** What the page's charts show. */
export type FacetCounts = Awaited<ReturnType<ReturnType<typeof createFacetCounts>>>["counts"];

/** Returns the most frequent values, by count and then by name, and the number of hosts with other values. */
const mostFrequent = (counts: FleetCounts["versions"]) => {
  const sorted = [...counts]
    .map(([value, counted]) => ({ value, ...counted }))
    .sort((a, b) => b.all - a.all || (a.value < b.value ? -1 : 1));
  const other = sorted.slice(facetValuesMax).reduce((sum, { all }) => sum + all, 0);
  return { named: sorted.slice(0, facetValuesMax), other };
};

/** Returns the hosts by the age of their last heartbeat; of the past, ages below the threshold together: history does not keep them. */
const ageBuckets = (
  { past, thresholds: { staleAfterSeconds } }: FleetRules,
  { heartbeatAges }: FleetCounts,
) => {
  const buckets = heartbeatAgeBounds.map((fromSeconds, index) => ({
    fromSeconds,
    toSeconds: heartbeatAgeBounds[index + 1] ?? null,
    count: heartbeatAges[index] ?? 0,
  }));
  if (!past) return buckets;
  const recent = buckets.filter(({ fromSeconds }) => fromSeconds < staleAfterSeconds);
  const count = recent.reduce((sum, bucket) => sum + bucket.count, 0);
  const toSeconds = recent.at(-1)?.toSeconds ?? null;
  return [{ fromSeconds: 0, toSeconds, count }, ...buckets.slice(recent.length)];
};
