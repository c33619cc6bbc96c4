import type { FleetFilter } from "../../../../proto/fleet-health/filter.ts";

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
export const barPlace = (index: number, columns: number): Pick<Bar, "x" | "width"> => ({
  x: percent((index + columnGap) / columns),
  width: percent((1 - 2 * columnGap) / columns),
});

/** Returns the indices of the bars that are links: those with a count. */
export const linkedBars = (bars: readonly Bar[]): number[] =>
  bars.flatMap(({ count }, index) => (count > 0 ? [index] : []));

/** Returns a share as a percentage with two decimals. */
export const percent = (share: number): number => Math.round(share * 10_000) / 100;
