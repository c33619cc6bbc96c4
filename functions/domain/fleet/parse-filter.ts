import { Problem } from "#functions/problems.ts";
import type { FleetFilter } from "#proto/fleet-health/filter.ts";
import { parseQuery } from "#proto/fleet-health/query-language/parse.ts";

/** Parses the filter of a request. Throws 422 `validation_failed` with the faults of the query. */
export const parseFilter = (query: string, now: number): FleetFilter => {
  const { filter, faults } = parseQuery(query, new Date(now));
  if (faults.length > 0)
    throw new Problem("validation_failed", {
      errors: faults.slice(0, 20).map(({ message }) => ({ path: "filter", message })),
    });
  return filter;
};
