import * as v from "valibot";
import type { ReadCore } from "#functions/core.ts";
import { createFactorReports } from "#functions/domain/fleet/find-factors.ts";
import { resource } from "#functions/http/resource.ts";
import { FleetFactors } from "#proto/fleet-health/factors.ts";
import { filterFromQuery, filterQuery, PastTime } from "#proto/fleet-health/filter.ts";
import { pastMarkOf } from "./row.ts";

/** The route that finds values which the hosts of a filter have in common, and other hosts have less often. */
export const factorReports = (core: ReadCore) => {
  const findFactors = createFactorReports(core);
  return resource(core, "/v1/collector/health", ({ get }) => ({
    findCommonFactors: get(
      "/factors",
      "Labels, versions, configs, sources and the like that the hosts of a filter have more often than all others",
      {
        query: filterQuery({ at: v.optional(PastTime) }),
        returns: ["The factors", FleetFactors],
        problems: ["no_history", "filter_without_history"],
        handle: async ({ query }) => {
          const { rules, selected, others, compared, readsSources, factors } = await findFactors({
            filter: filterFromQuery(query),
            at: query.at,
          });
          return {
            generated_at: rules.now.toISOString(),
            ...pastMarkOf(rules),
            selected,
            others,
            compared,
            ...(readsSources && { reads_sources: true as const }),
            items: factors.map((factor) => ({
              kind: factor.kind,
              value: factor.value,
              selected: factor.selected,
              others: factor.all - factor.selected,
              expected_by_chance: factor.expectedByChance,
            })),
          };
        },
      },
    ),
  }));
};
