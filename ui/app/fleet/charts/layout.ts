import type { FleetFilter } from "../query-language/filter.ts";

/** Height of every chart in pixels, and where its bars stand and may reach. Horizontal places are percentages of its width. */
export const chartHeight = 96;
export const barBase = 78;
export const barHeightMax = 62;
const barHeightMin = 3;

/** One bar. What needs a hand is marked, which shows as hatching beside the colour. */
export interface Bar {
  count: number;
  marked: boolean;
  /** Left edge and width, in percent of the chart. */
  x: number;
  width: number;
  /** In pixels; 0 without any. */
  height: number;
  /** What the bar counts, as a row's head in the text table: `1–2 min ago`. */
  label: string;
  /** The whole in words: `312 hosts, last heartbeat 1–2 min ago`. */
  name: string;
  /** What a click filters by, and that in words; absent where no filter says it. */
  filter?: { change: FleetFilter; name: string };
}

/** A word below the axis, centred at `x` percent unless it is at an edge. */
export interface Tick {
  x: number;
  label: string;
  anchor: "start" | "middle" | "end";
}

/**
 * Heights in pixels by the square root of the count: a handful of hosts stays in sight beside thousands, and the higher bar is always
 * the larger count. None at all has no height.
 */
export const barHeights = (counts: readonly number[]): number[] => {
  const highest = Math.sqrt(Math.max(1, ...counts));
  return counts.map((count) =>
    count === 0 ? 0 : Math.max(barHeightMin, Math.round((Math.sqrt(count) / highest) * barHeightMax)),
  );
};

/** `columns` equal columns over the whole width, `gap` of each left free: the left edge and width of each in percent. */
export const columnAt = (index: number, columns: number, gap = 0.2): { x: number; width: number } => ({
  x: percent((index + gap / 2) / columns),
  width: percent((1 - gap) / columns),
});

/** What a link on a bar is called: what it counts, and what it does. */
export const linkName = ({ name, filter }: Bar): string => (filter === undefined ? name : `${name}: ${filter.name}`);

/** The places of the bars that are links: those that count something and have a filter. */
export const linkedBars = (bars: readonly Bar[]): number[] =>
  bars.flatMap(({ count, filter }, index) => (count > 0 && filter !== undefined ? [index] : []));

/** A share as a percentage with two decimals. */
export const percent = (share: number): number => Math.round(share * 10_000) / 100;
