import type { FleetFacets } from "../../../../proto/fleet-health/facets.ts";
import type { FleetHealthRow } from "../../../../proto/fleet-health/row.ts";
import { formatCount, formatCountOf, formatDay } from "../../format/format.ts";
import { type Bar, barHeights, barPlace, percent, type Tick } from "./bars.ts";

const daySeconds = 86_400;

/** When certificates expire: a column for the expired, then one for each of the next days. */
export interface ExpiryChart {
  bars: readonly Bar[];
  ticks: readonly Tick[];
  /** The days in which a collector should renew; absent when unknown. */
  renewalWindow?: { x: number; width: number };
  /** Certificates that expire later than the last column. */
  later: number;
}

/** The width of the column of the expired, in days, and the gap before the first day. */
const expiredDays = 2;
const gapDays = 1;

/**
 * Lays out the chart of the facets' certificate expiry. `renewalSeconds` is how long before expiry a certificate is due for renewal
 * (`typicalRenewalSeconds`); certificates with less than `cert_expiring_fraction` of their lifetime left are marked.
 */
export const layOutExpiry = (
  { certificate_expiry, thresholds }: FleetFacets,
  renewalSeconds: number | undefined,
): ExpiryChart => {
  const { expired, days, later } = certificate_expiry;
  const columns = expiredDays + gapDays + days.length;
  const dayX = (day: number) => percent((expiredDays + gapDays + day) / columns);
  const heights = barHeights([expired, ...days.map(({ count }) => count)]);
  // Renewal is due at half of the lifetime.
  const expiringSeconds = (renewalSeconds ?? 0) * 2 * thresholds.cert_expiring_fraction;
  const expiredBar: Bar = {
    count: expired,
    marked: true,
    x: 0,
    width: percent(expiredDays / columns),
    height: heights[0] ?? 0,
    label: "expired",
    name: `${formatCountOf(expired, "host")}, certificate expired`,
    filter: { change: { expiresWithinSeconds: 0 }, name: "filter to expired" },
  };
  const dayBars = days.map(
    ({ day, to, count }): Bar => ({
      count,
      marked: day * daySeconds < expiringSeconds,
      ...barPlace(expiredDays + gapDays + day, columns),
      height: heights[day + 1] ?? 0,
      label: `within ${day + 1} d, ${formatDay(to)}`,
      name: `${formatCountOf(count, "host")}, certificate expires by ${formatDay(to)}`,
      filter: { change: { expiresWithinSeconds: (day + 1) * daySeconds }, name: `filter to within ${day + 1} d` },
    }),
  );
  const windowDays = Math.min(days.length, (renewalSeconds ?? 0) / daySeconds);
  return {
    bars: [expiredBar, ...dayBars],
    ticks: [
      { x: 0, label: "expired", anchor: "start" },
      ...(later > 0 ? [7, 14] : [7, 14, 21])
        .filter((day) => day < days.length)
        .map((day): Tick => ({ x: dayX(day), label: `${day} d`, anchor: "middle" })),
      { x: 100, label: later > 0 ? `+${formatCount(later)} later` : `${days.length} d`, anchor: "end" },
    ],
    ...(windowDays > 0 ? { renewalWindow: { x: dayX(0), width: percent(windowDays / columns) } } : {}),
    later,
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
