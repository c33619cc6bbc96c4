import type { FleetFacets } from "../../../../proto/fleet-health/facets.ts";
import { toSecond } from "../../../../proto/fleet-health/filter.ts";
import type { FleetHealthRow } from "../../../../proto/fleet-health/row.ts";
import { formatCountOf, formatDay } from "../../format/format.ts";
import { type Bar, barHeights, barPlace, percent, type Tick } from "./bars.ts";

const daySeconds = 86_400;

/** When certificates expire: a column for the expired, one for each of the next days or a few of them, and one for the rest. */
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
 * (`typicalRenewalSeconds`); certificates with less than `cert_expiring_fraction` of their lifetime left are marked. A narrow screen has
 * room for columns of `daysPerBar`.
 */
export const layOutExpiry = (
  { certificate_expiry, generated_at, thresholds }: FleetFacets,
  renewalSeconds: number | undefined,
  daysPerBar = 1,
): ExpiryChart => {
  const { expired, days, later } = certificate_expiry;
  const spans = Array.from({ length: Math.ceil(days.length / daysPerBar) }, (_, index) => {
    const own = days.slice(index * daysPerBar, (index + 1) * daysPerBar);
    const from = index * daysPerBar;
    return {
      from,
      to: from + own.length,
      after: own[0]?.from ?? "",
      by: own.at(-1)?.to ?? "",
      count: own.reduce((sum, { count }) => sum + count, 0),
    };
  });
  const columns = 2 * outerColumns + spans.length;
  const dayX = (day: number) => percent((outerColumns + day / daysPerBar) / columns);
  const heights = barHeights([expired, ...spans.map(({ count }) => count), later]);
  // Renewal is due at half of the lifetime.
  const expiringSeconds = (renewalSeconds ?? 0) * 2 * thresholds.cert_expiring_fraction;
  const barOf = (
    index: number,
    column: number,
    rest: Pick<Bar, "count" | "label" | "marked" | "filter">,
  ): Bar => ({
    ...rest,
    ...barPlace(column, columns),
    height: heights[index] ?? 0,
    name: `${formatCountOf(rest.count, "host")}, certificate ${rest.label}`,
  });
  const dayBars = spans.map(({ from, to, after, by, count }, index) =>
    barOf(index + 1, outerColumns + index, {
      count,
      marked: from * daySeconds < expiringSeconds,
      label: `expires in ${from}–${to} d, by ${formatDay(by)}`,
      filter: { expires: [rangeOf(after, by)] },
    }),
  );
  const end = days.length * daySeconds;
  const outer = {
    expired: {
      count: expired,
      marked: true,
      label: "expired",
      filter: { expires: [rangeOf(epoch, generated_at)] },
    },
    later: {
      count: later,
      marked: end < expiringSeconds,
      label: `expires in more than ${days.length} d`,
      filter: { notExpires: [rangeOf(epoch, spans.at(-1)?.by ?? generated_at)] },
    },
  };
  const windowDays = Math.min(days.length, (renewalSeconds ?? 0) / daySeconds);
  return {
    bars: [
      barOf(0, 0, outer.expired),
      ...dayBars,
      barOf(spans.length + 1, columns - 1, outer.later),
    ],
    ticks: [
      { x: 0, label: "expired", anchor: "start" },
      ...[7, 14, 21]
        .filter((day) => day < days.length)
        .map((day): Tick => ({ x: dayX(day), label: `${day} d`, anchor: "middle" })),
      { x: 100, label: "later", anchor: "end" },
    ],
    ...(windowDays > 0
      ? { renewalWindow: { x: dayX(0), width: percent(windowDays / daysPerBar / columns) } }
      : {}),
  };
};

const epoch = "1970-01-01T00:00:00.000Z";

/**
 * Returns the range of `expires` after `from` up to and including `to`. Certificates expire on whole seconds. A filter by duration would find
 * other hosts than the bar counts, as time goes on.
 */
const rangeOf = (from: string, to: string): string =>
  [from, to].map((at) => toSecond(new Date(Date.parse(at) + 1000))).join("..");

/**
 * Returns how long before expiry the certificates of these rows are due for renewal, in seconds: the median, since each policy has a
 * lifetime of its own; undefined without rows.
 */
export const typicalRenewalSeconds = (
  rows: readonly Pick<FleetHealthRow, "certificate">[],
): number | undefined => {
  const windows = rows
    .map(
      ({ certificate }) =>
        (Date.parse(certificate.not_after) - Date.parse(certificate.renew_after)) / 1000,
    )
    .sort((one, other) => one - other);
  return windows[Math.floor(windows.length / 2)];
};
