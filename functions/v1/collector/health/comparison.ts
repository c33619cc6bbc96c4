import type { ReadCore } from "#functions/core.ts";
import { createComparisons } from "#functions/domain/fleet/compare-followed.ts";
import { resource } from "#functions/http/resource.ts";
import { QueryTime } from "#functions/v1/query-time.ts";
import { FleetComparison } from "#proto/fleet-health/comparison.ts";
import { filterFromQuery, filterQuery } from "#proto/fleet-health/filter.ts";

/** The route that compares the hosts of a filter since a time with similar others. */
export const comparisonReports = (core: ReadCore) => {
  const compare = createComparisons(core);
  return resource(core, "/v1/collector/health", ({ get }) => ({
    compareHosts: get(
      "/comparison",
      "Losses, silence, restarts, memory and CPU of a filter's hosts since a time, against similar other hosts",
      {
        query: filterQuery({ since: QueryTime }),
        returns: ["The comparison", FleetComparison],
        problems: ["no_history"],
        handle: async ({ query }) => {
          const since = new Date(query.since(core.clock.now()));
          const comparison = await compare({ filter: filterFromQuery(query), since });
          return { ...comparison, since: since.toISOString() };
        },
      },
    ),
  }));
};
