import type { FleetFacets } from "../../../../proto/fleet-health/facets.ts";
import type { FleetHealthRow } from "../../../../proto/fleet-health/row.ts";
import { formatCountOf, formatDay } from "../../format/format.ts";
import { type Bar, barHeights, barPlace, percent, type Tick } from "./bars.ts";

const daySeconds = 86_400;

/** When certificates expire: a column for the expired, one for each of the next days, and one for the rest. */
export interface ExpiryChart {
  bars: readonly Bar[];
  ticks: readonly Tick[];
  /** The days in which a collector should renew; absent when unknown. */
  renewalWindow?: { x: number; width: number };
}

/** The columns before the first day, and after the last one: a bar and a gap each. */
const outerColumns = 2;

/**
 * Lays out the chart of the facets' certificate expiry. `renewalSeconds` is how long before expiry a certificate is due for renewal
 * (`typicalRenewalSeconds`); certificates with less than `cert_expiring_fraction` of their lifetime left are marked.
 */
export const layOutExpiry = (
  { certificate_expiry, thresholds }: FleetFacets,
  renewalSeconds: number | undefined,
): ExpiryChart => {
  const { expired, days, later } = certificate_expiry;
  const columns = 2 * outerColumns + days.length;
  const dayX = (day: number) => percent((outerColumns + day) / columns);
  const heights = barHeights([expired, ...days.map(({ count }) => count), later]);
  // Renewal is due at half of the lifetime.
  const expiringSeconds = (renewalSeconds ?? 0) * 2 * thresholds.cert_expiring_fraction;
  const barOf = (index: number, column: number, rest: Pick<Bar, "count" | "label" | "marked" | "filter">): Bar => ({
    ...rest,
    ...barPlace(column, columns),
    height: heights[index] ?? 0,
    name: `${formatCountOf(rest.count, "host")}, certificate ${rest.label}`,
  });
  const dayBars = days.map(({ day, to, count }) =>
    barOf(day + 1, outerColumns + day, {
      count,
      marked: day * daySeconds < expiringSeconds,
      label: `expires in ${day}–${day + 1} d, by ${formatDay(to)}`,
      filter: { notExpiresWithinSeconds: day * daySeconds, expiresWithinSeconds: (day + 1) * daySeconds },
    }),
  );
  const end = days.length * daySeconds;
  const outer = {
    expired: { count: expired, marked: true, label: "expired", filter: { expiresWithinSeconds: 0 } },
    later: {
      count: later,
      marked: end < expiringSeconds,
      label: `expires in more than ${days.length} d`,
      filter: { notExpiresWithinSeconds: end },
    },
  };
  const windowDays = Math.min(days.length, (renewalSeconds ?? 0) / daySeconds);
  return {
    bars: [barOf(0, 0, outer.expired), ...dayBars, barOf(days.length + 1, columns - 1, outer.later)],
    ticks: [
      { x: 0, label: "expired", anchor: "start" },
      ...[7, 14, 21]
        .filter((day) => day < days.length)
        .map((day): Tick => ({ x: dayX(day), label: `${day} d`, anchor: "middle" })),
      { x: 100, label: "later", anchor: "end" },
    ],
    ...(windowDays > 0 ? { renewalWindow: { x: dayX(0), width: percent(windowDays / columns) } } : {}),
  };
};

/**
 * Returns how long before expiry the certificates of these rows are due for renewal, in seconds: the median, since each policy has a
 * lifetime of its own; undefined without rows.
 */
export const typicalRenewalSeconds = (rows: readonly Pick<FleetHealthRow, "certificate">[]): number | undefined => {
  const windows = rows
    .map(({ certificate }) => (Date.parse(certificate.not_after) - Date.parse(certificate.renew_after)) / 1000)
    .sort((one, other) => one - other);
  return windows[Math.floor(windows.length / 2)];
};
