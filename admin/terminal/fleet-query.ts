import type { ReportFleetHealthData } from "#client/index.ts";
import { type FleetFilter, filterToParams } from "#proto/fleet-health/filter.ts";

/** The filter of the health report as query parameters. */
export type FleetQuery = NonNullable<ReportFleetHealthData["query"]>;

/** Returns a filter as the query parameters of the health report. */
export const filterToQuery = (filter: FleetFilter): FleetQuery => {
  const params = filterToParams(filter);
  return Object.fromEntries(
    [...new Set(params.keys())].map((name) => [name, params.getAll(name)]),
  ) as FleetQuery;
};
