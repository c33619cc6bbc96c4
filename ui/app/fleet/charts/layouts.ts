import type { FleetHealthRow } from "#proto/fleet-health/columns.ts";
import type { FleetFacets } from "#proto/fleet-health/facets.ts";
import { type FleetFilter, toSecond } from "#proto/fleet-health/filter.ts";
import { formatCountOf, formatDay, formatDuration, plainText } from "#ui/app/format/format.ts";

/** Height of every chart in pixels, its base line, and the highest bar. Horizontal positions are percentages of the width. */
export const chartHeight = 72;
export const barBase = 56;
export const barHeightMax = 43;
const barHeightMin = 3;

/** One bar. A marked bar needs attention; it is hatched as well as coloured. */
export interface Bar {
  count: number;
  marked: boolean;
  /** Left edge and width, in percent of the chart. */
  x: number;
  width: number;
  /** In pixels; 0 for a count of 0. */
  height: number;
  /** The row header in the text table: `1–2 min ago`. */
  label: string;
  /** The whole in words: `312 hosts, last heartbeat 1–2 min ago`. */
  name: string;
  /** The filter that finds exactly the hosts of the bar. */
  filter: FleetFilter;
}

/** A word below the axis, centred at `x` percent unless it is at an edge. */
export interface Tick {
  x: number;
  label: string;
  anchor: "start" | "middle" | "end";
}

/**
 * Returns heights in pixels by the square root of the count: a few hosts stay visible beside thousands, and the higher bar is always
 * the larger count.
 */
export const barHeights = (counts: readonly number[]): number[] => {
  const highest = Math.sqrt(Math.max(1, ...counts));
  return counts.map((count) =>
    count === 0
      ? 0
      : Math.max(barHeightMin, Math.round((Math.sqrt(count) / highest) * barHeightMax)),
  );
};

/** The free part of a column on each side of its bar. A column of 19 px has a bar of 16 px. */
const columnGap = 0.07;

/** Returns the place of the bar in the column `index` of `columns`, in percent. */
const barPlace = (index: number, columns: number): Pick<Bar, "x" | "width"> => ({
  x: percent((index + columnGap) / columns),
  width: percent((1 - 2 * columnGap) / columns),
});

/** Returns the indices of the bars that are links: those with a count. */
export const linkedBars = (bars: readonly Bar[]): number[] =>
  bars.flatMap(({ count }, index) => (count > 0 ? [index] : []));

/** Returns a share as a percentage with two decimals. */
const percent = (share: number) => Math.round(share * 10_000) / 100;

const daySeconds = 86_400;

/** When certificates expire: a column for the expired, one for each of the next days or a few of them, and one for the rest. */
interface ExpiryChart {
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
    const from = index * daysPerBar;
    const daysOfBar = days.slice(from, from + daysPerBar);
    return {
      from,
      to: from + daysOfBar.length,
      after: daysOfBar[0]?.from ?? "",
      by: daysOfBar.at(-1)?.to ?? "",
      count: daysOfBar.reduce((sum, { count }) => sum + count, 0),
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
    own: Pick<Bar, "count" | "label" | "marked" | "filter">,
  ): Bar => ({
    ...own,
    ...barPlace(column, columns),
    height: heights[index] ?? 0,
    name: `${formatCountOf(own.count, "host")}, certificate ${own.label}`,
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
const rangeOf = (from: string, to: string) =>
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

/** The ages of heartbeats: a column for each bucket, and one for hosts without a heartbeat. */
interface HeartbeatChart {
  bars: readonly Bar[];
  ticks: readonly Tick[];
  /** Where `stale` begins. */
  threshold: { x: number; label: string };
}

/** Ages below the axis: few enough for a chart 280 px wide. */
const tickSeconds = new Set([60, 600, 3600, 86_400]);

/** Lays out the chart of the facets' heartbeat ages. */
export const layOutHeartbeats = ({ heartbeat_age, thresholds }: FleetFacets): HeartbeatChart => {
  const { buckets, never } = heartbeat_age;
  const stale = thresholds.stale_after_seconds;
  const columns = buckets.length + 1;
  const heights = barHeights([...buckets.map(({ count }) => count), never]);
  const boxOf = (index: number) => ({ ...barPlace(index, columns), height: heights[index] ?? 0 });
  const bars = buckets.map(({ from_seconds, to_seconds, count }, index): Bar => {
    const from = formatDuration(from_seconds);
    const label = `${to_seconds === null ? `over ${from}` : rangeBetween(from_seconds, to_seconds)} ago`;
    return {
      count,
      marked: from_seconds >= stale,
      ...boxOf(index),
      label,
      name: `${formatCountOf(count, "host")}, last heartbeat ${label}`,
      filter: ageFilter(from_seconds, to_seconds),
    };
  });
  const neverBar: Bar = {
    count: never,
    marked: true,
    ...boxOf(buckets.length),
    label: "never",
    name: `${formatCountOf(never, "host")}, no heartbeat ever`,
    filter: { heartbeat: ["never"] },
  };
  const ticks = buckets.flatMap(({ from_seconds }, index): Tick[] =>
    tickSeconds.has(from_seconds)
      ? [{ x: percent(index / columns), label: formatDuration(from_seconds), anchor: "middle" }]
      : [],
  );
  return {
    bars: [...bars, neverBar],
    ticks: [...ticks, { x: 100, label: "never", anchor: "end" }],
    threshold: {
      x: percent(columnOf(stale, buckets) / columns),
      label: `stale after ${formatDuration(stale)}`,
    },
  };
};

/** Returns the filter of a bucket, which holds its upper bound; the first also holds 0 and excludes hosts without a heartbeat. */
const ageFilter = (from: number, to: number | null): FleetFilter => ({
  ...(from === 0 ? { notHeartbeat: ["never"] } : { heartbeatOlderThanSeconds: from }),
  ...(to === null ? {} : { notHeartbeatOlderThanSeconds: to }),
});

/** Returns `30 s–1 min`, or `1–2 min` where both have the same unit. */
const rangeBetween = (from: number, to: number) => {
  const start = formatDuration(from);
  const end = formatDuration(to);
  const [, amount, unit] = /^(\d+) (\D+)$/.exec(start) ?? [];
  if (from === 0) return `0–${end}`;
  return amount !== undefined && new RegExp(`^\\d+ ${unit}$`).test(end)
    ? `${amount}–${end}`
    : `${start}–${end}`;
};

/** Returns the position of an age in columns; inside a bucket on a logarithmic scale. */
const columnOf = (age: number, buckets: FleetFacets["heartbeat_age"]["buckets"]) => {
  const index = buckets.findIndex(({ to_seconds }) => to_seconds === null || age < to_seconds);
  const bucket = buckets[index];
  if (bucket === undefined) return buckets.length;
  const { from_seconds: from, to_seconds: to } = bucket;
  if (to === null) return index + (age > from ? 0.5 : 0);
  return index + Math.log(Math.max(1, age) / Math.max(1, from)) / Math.log(to / Math.max(1, from));
};

/** A version, or all the others together: a horizontal bar whose width is the count. */
export interface VersionRow extends Bar {
  /** Its fault in a word; empty without one. */
  note: string;
}

/** Rows of 24 px, so that each is a target large enough to hit. */
export const versionRowHeight = 24;
/** There is room for as many without scrolling. */
const rowsMin = 3;

/** The start and the greatest width of the bars, in percent; names are to the left, counts to the right. */
export const versionBars = { x: 36, width: 14 } as const;

/** Returns how many versions have a row: all, or so many that the others together are fewer than the last one. */
const shownVersions = (versions: FleetFacets["versions"], unnamed: number): number => {
  let others = versions.reduce((sum, { count }) => sum + count, unnamed);
  const isEnough = versions.findIndex(({ count }, index) => {
    others -= count;
    const isOneLeft = unnamed === 0 && index + 2 === versions.length;
    return index + 2 >= rowsMin && others <= count && !isOneLeft;
  });
  return isEnough < 0 ? versions.length : isEnough + 1;
};

/** Lays out a row for each of the most frequent versions, and one for the rest, which is the smallest; unsupported ones are marked. */
export const layOutVersions = ({ versions, versions_other }: FleetFacets): VersionRow[] => {
  const shown = shownVersions(versions, versions_other);
  const others = versions.slice(shown);
  const othersCount = others.reduce((sum, { count }) => sum + count, versions_other);
  const hasUnsupported = others.some(({ supported }) => !supported);
  const countMax = Math.max(1, othersCount, ...versions.map(({ count }) => count));
  const barOf = (count: number) => ({
    count,
    x: versionBars.x,
    width: count === 0 ? 0 : Math.max(1, percent((count / countMax) * (versionBars.width / 100))),
    height: 12,
  });
  const rows = versions.slice(0, shown).map(({ version, count, supported }) => ({
    ...barOf(count),
    marked: !supported,
    label: plainText(version),
    note: supported ? "" : "unsupported",
    name: `${formatCountOf(count, "host")}, version ${plainText(version)}${supported ? "" : ", unsupported"}`,
    filter: { version: [version] },
  }));
  if (othersCount === 0) return rows;
  const label =
    versions_other > 0 ? "other versions" : formatCountOf(others.length, "other version");
  const name = `${formatCountOf(othersCount, "host")}, ${label}`;
  const filter = { notVersion: versions.slice(0, shown).map(({ version }) => version) };
  const othersRow = { ...barOf(othersCount), label, filter };
  if (!hasUnsupported) return [...rows, { ...othersRow, marked: false, note: "", name }];
  return [
    ...rows,
    {
      ...othersRow,
      marked: true,
      note: "some unsupported",
      name: `${name}, some of them unsupported`,
    },
  ];
};
