import type { FleetFacets } from "../../../../proto/fleet-health/facets.ts";
import type { FleetFilter } from "../../../../proto/fleet-health/filter.ts";
import { formatCountOf, formatDuration } from "../../format/format.ts";
import { type Bar, barHeights, barPlace, percent, type Tick } from "./bars.ts";

/** The ages of heartbeats: a column for each bucket, and one for hosts without a heartbeat. */
export interface HeartbeatChart {
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
  const place = (index: number) => ({ ...barPlace(index, columns), height: heights[index] ?? 0 });
  const bars = buckets.map(({ from_seconds, to_seconds, count }, index): Bar => {
    const from = formatDuration(from_seconds);
    const label = `${to_seconds === null ? `over ${from}` : rangeBetween(from_seconds, to_seconds)} ago`;
    return {
      count,
      marked: from_seconds >= stale,
      ...place(index),
      label,
      name: `${formatCountOf(count, "host")}, last heartbeat ${label}`,
      filter: ageFilter(from_seconds, to_seconds),
    };
  });
  const neverBar: Bar = {
    count: never,
    marked: true,
    ...place(buckets.length),
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
const rangeBetween = (from: number, to: number): string => {
  const start = formatDuration(from);
  const end = formatDuration(to);
  const [, amount, unit] = /^(\d+) (\D+)$/.exec(start) ?? [];
  if (from === 0) return `0–${end}`;
  return amount !== undefined && new RegExp(`^\\d+ ${unit}$`).test(end)
    ? `${amount}–${end}`
    : `${start}–${end}`;
};

/** Returns the position of an age in columns; inside a bucket on a logarithmic scale. */
const columnOf = (age: number, buckets: FleetFacets["heartbeat_age"]["buckets"]): number => {
  const index = buckets.findIndex(({ to_seconds }) => to_seconds === null || age < to_seconds);
  const bucket = buckets[index];
  if (bucket === undefined) return buckets.length;
  const { from_seconds: from, to_seconds: to } = bucket;
  if (to === null) return index + (age > from ? 0.5 : 0);
  return index + Math.log(Math.max(1, age) / Math.max(1, from)) / Math.log(to / Math.max(1, from));
};
