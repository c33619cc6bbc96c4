import { type FleetFilter, filterToParams } from "#proto/fleet-health/filter.ts";
import type { NowLine } from "#proto/now/report.ts";

/** A line before core knows who has taken it. */
export type FoundLine = Omit<NowLine, "taken">;

/** Returns the address of the hosts of a filter. */
export const fleetPath = (filter: FleetFilter): string => {
  const params = filterToParams(filter);
  return `/fleet${params.size === 0 ? "" : `?${params}`}`;
};
