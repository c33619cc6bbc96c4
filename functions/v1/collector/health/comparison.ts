import * as v from "valibot";
import type { Core } from "#functions/core.ts";
import { createComparisons } from "#functions/domain/fleet/compare-change.ts";
import { scope } from "#functions/http/guards.ts";
import { route } from "#functions/http/route.ts";
import { QueryTime } from "#functions/v1/query-time.ts";
import { FleetComparison } from "#proto/fleet-health/comparison.ts";
import {
  filterFromQuery,
  fleetFilterFields,
  leavesState,
  noStateLeft,
} from "#proto/fleet-health/filter.ts";

/** `GET /v1/collector/health/comparison`: how the hosts of a filter differ since a time from similar others. */
export const healthComparisonRoute = (core: Pick<Core, "config" | "db" | "clock">) => {
  const compare = createComparisons(core);
  return route({
    method: "GET",
    path: "/v1/collector/health/comparison",
    operationId: "compareHosts",
    summary:
      "Losses, silence, restarts, memory and CPU of a filter's hosts since a time, against similar other hosts",
    guard: scope(core, "audit"),
    query: v.pipe(
      v.strictObject({ ...fleetFilterFields, since: QueryTime }),
      v.check((query) => leavesState(query), noStateLeft),
    ),
    problems: ["no_history"],
    replies: { 200: { description: "The comparison", schema: FleetComparison } },
    handle: async ({ query }) => {
      const since = new Date(query.since(core.clock.now()));
      const comparison = await compare({ filter: filterFromQuery(query), since });
      return { status: 200, body: { ...comparison, since: since.toISOString() } };
    },
  });
};
