import type { FleetTimelineView } from "#proto/fleet-health/timeline.ts";
import type { FleetState } from "#proto/fleet-health/vocabulary.ts";

/** The counts of a time. */
export type TimelineItem = FleetTimelineView["items"][number];

/** The size of the drawing, in units of its own. */
export const timelineSize = { width: 1000, height: 40 } as const;

/** States that are drawn as one area, in the colour of the first: what stopped hosts, what may stop them, and what is new. */
const bands = [
  ["stale", "renewal_failed"],
  [
    "queue_at_risk",
    "component_unhealthy",
    "config_invalid",
    "cert_expiring",
    "unsupported_version",
  ],
  ["enrolling"],
] as const satisfies readonly (readonly FleetState[])[];

/** A drawing of a timeline: areas that stand on each other, and the times in which core was out. */
interface TimelineDrawing {
  areas: readonly { state: FleetState; path: string }[];
  outages: readonly { x: number; width: number }[];
  /** The most hosts of all areas at a time. */
  highest: number;
}

/** Draws a timeline. Counts that are further apart than others are not joined: nobody counted in between. */
export const drawTimeline = ({
  from,
  to,
  step_seconds,
  items,
  outages,
}: FleetTimelineView): TimelineDrawing => {
  const start = Date.parse(from);
  const end = Date.parse(to);
  const xOf = (at: string) =>
    rounded(((Date.parse(at) - start) / (end - start)) * timelineSize.width);
  const countOf = ({ by_state }: TimelineItem, states: readonly FleetState[]) =>
    states.reduce((sum, state) => sum + (by_state[state] ?? 0), 0);
  const highest = Math.max(0, ...items.map((item) => countOf(item, bands.flat())));
  const yOf = (count: number) => rounded(timelineSize.height * (1 - count / Math.max(1, highest)));
  const runs: TimelineItem[][] = [];
  for (const item of items) {
    const run = runs.at(-1);
    const before = run?.at(-1);
    if (run && before && Date.parse(item.at) - Date.parse(before.at) < 2.5 * step_seconds * 1000)
      run.push(item);
    else runs.push([item]);
  }
  return {
    areas: bands.map((states, index) => {
      const below = bands.slice(0, index).flat();
      const edge = (run: readonly TimelineItem[], of: readonly FleetState[]) =>
        run.map((item) => `${xOf(item.at)} ${yOf(countOf(item, of))}`);
      const path = runs
        .map(
          (run) =>
            `M${[...edge(run, [...below, ...states]), ...edge(run, below).toReversed()].join("L")}Z`,
        )
        .join("");
      return { state: states[0], path };
    }),
    outages: outages.map(({ began_at, ended_at }) => {
      const x = Math.max(0, xOf(began_at));
      // One of a minute is seen too.
      return { x, width: Math.max(2, rounded(xOf(ended_at) - x)) };
    }),
    highest,
  };
};

const rounded = (value: number) => Math.round(value * 10) / 10;

/** Returns the counts nearest to a time, in milliseconds; undefined if there are none within two steps of it. */
export const itemNear = (
  { items, step_seconds }: FleetTimelineView,
  at: number,
): TimelineItem | undefined => {
  const distance = (item: TimelineItem) => Math.abs(Date.parse(item.at) - at);
  const nearest = items.reduce<TimelineItem | undefined>(
    (best, item) => (best === undefined || distance(item) < distance(best) ? item : best),
    undefined,
  );
  return nearest && distance(nearest) <= 2000 * step_seconds ? nearest : undefined;
};
