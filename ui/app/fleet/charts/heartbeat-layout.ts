import type { FleetFacets } from "../../../../proto/fleet-health/facets.ts";
import { formatCountOf } from "../../format/amount.ts";
import { formatSpan } from "../../format/time.ts";
import { type Bar, barHeights, columnAt, percent, type Tick } from "./layout.ts";

/** How long ago collectors were heard of: a column for each bucket, the widest times last, and one for those never heard of. */
export interface HeartbeatChart {
  bars: readonly Bar[];
  ticks: readonly Tick[];
  /** Where staleness begins. */
  threshold: { x: number; label: string };
}

/** Ages that stand below the axis: few enough for a chart 280 px wide. */
const tickSeconds = new Set([60, 600, 3600, 86_400]);

/** The chart of the facets' heartbeat ages. */
export const layOutHeartbeats = ({ heartbeat_age, thresholds }: FleetFacets): HeartbeatChart => {
  const { buckets, never } = heartbeat_age;
  const stale = thresholds.stale_after_seconds;
  const columns = buckets.length + 1;
  const heights = barHeights([...buckets.map(({ count }) => count), never]);
  const bars = buckets.map(({ from_seconds, to_seconds, count }, index): Bar => {
    const label = `${to_seconds === null ? `over ${formatSpan(from_seconds)}` : spanBetween(from_seconds, to_seconds)} ago`;
    return {
      count,
      marked: from_seconds >= stale,
      ...columnAt(index, columns),
      height: heights[index] ?? 0,
      label,
      name: `${formatCountOf(count, "host")}, last heartbeat ${label}`,
      filter: {
        change: { heartbeatOlderThanSeconds: from_seconds },
        name: `filter to more than ${formatSpan(from_seconds)}`,
      },
    };
  });
  const neverBar: Bar = {
    count: never,
    marked: true,
    ...columnAt(buckets.length, columns),
    height: heights[buckets.length] ?? 0,
    label: "never",
    name: `${formatCountOf(never, "host")}, no heartbeat ever`,
  };
  return {
    bars: [...bars, neverBar],
    ticks: [
      ...buckets.flatMap(({ from_seconds }, index): Tick[] =>
        tickSeconds.has(from_seconds)
          ? [{ x: percent(index / columns), label: formatSpan(from_seconds), anchor: "middle" }]
          : [],
      ),
      { x: 100, label: "never", anchor: "end" },
    ],
    threshold: { x: percent(placeOf(stale, buckets) / columns), label: `stale after ${formatSpan(stale)}` },
  };
};

/** `30 s–1 min`; the unit once where both have the same: `1–2 min`. */
const spanBetween = (from: number, to: number): string => {
  const [start, end] = [formatSpan(from), formatSpan(to)];
  const [, amount, unit] = /^(\d+) (\D+)$/.exec(start) ?? [];
  if (from === 0) return `0–${end}`;
  return amount !== undefined && new RegExp(`^\\d+ ${unit}$`).test(end) ? `${amount}–${end}` : `${start}–${end}`;
};

/** Where an age stands among the buckets, in columns; inside a bucket by the ratio of the ages, as on a logarithmic axis. */
const placeOf = (age: number, buckets: FleetFacets["heartbeat_age"]["buckets"]): number => {
  const index = buckets.findIndex(({ to_seconds }) => to_seconds === null || age < to_seconds);
  const bucket = buckets[index];
  if (bucket === undefined) return buckets.length;
  const { from_seconds: from, to_seconds: to } = bucket;
  if (to === null) return index + (age > from ? 0.5 : 0);
  return index + Math.log(Math.max(1, age) / Math.max(1, from)) / Math.log(to / Math.max(1, from));
};
