import type { Outage } from "#functions/store/fleet/counted-time.ts";
import { type FleetFilter, filterToParams } from "#proto/fleet-health/filter.ts";
import type { NowLine, NowReport } from "#proto/now/report.ts";

/** A line before core knows who has taken it. */
export type FoundLine = Omit<NowLine, "taken">;

/** What needs a person, before core knows who has taken which line. */
export interface FoundNow extends Pick<NowReport, "strip" | "hosts"> {
  /** The worst first. */
  lines: readonly FoundLine[];
  /** The kinds of lines that core could not read. */
  unread: ReadonlySet<string>;
  /** The outage of core during which nothing changes its state. */
  hold: Outage | undefined;
}

/** Returns the address of the hosts of a filter. */
export const fleetPath = (filter: FleetFilter): string => {
  const params = filterToParams(filter);
  return `/fleet${params.size === 0 ? "" : `?${params}`}`;
};
