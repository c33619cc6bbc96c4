import { useNavigate } from "@solidjs/router";
import { type Accessor, type JSX, Show } from "solid-js";
import * as v from "valibot";
import { NumberOrNull, TextOrNull } from "#proto/values.ts";
import { createReport } from "#ui/app/api/live-report.tsx";
import { TrendLine } from "#ui/app/design/trend-line.tsx";
import { formatCount, formatCountOf } from "#ui/app/format/format.ts";
import { type FleetView, viewPath, withTime } from "../view/view-state.ts";

const Points = v.array(NumberOrNull);
/** The part of `FleetTrends` that the lines need. */
const Trends = v.object({
  sampled_at: v.array(TextOrNull),
  needs_attention: Points,
  forwarding: Points,
  incomplete: Points,
  by_state: v.record(v.string(), Points),
});

/** Returns the line of the last 24 hours of a figure; nothing for one that has none. */
export type TrendOf = (figure: string) => JSX.Element;

/** Creates the lines under the figures of the whole fleet, from one request. Of a part of it, and of the past, there are none. */
export const createTrends = (
  view: Accessor<FleetView>,
  { isWhole, paused }: { isWhole: Accessor<boolean>; paused: Accessor<boolean> },
): TrendOf => {
  const navigate = useNavigate();
  const report = createReport({
    schema: Trends,
    path: () => (isWhole() ? "/api/core/collector/health/trends" : undefined),
    paused,
  });
  const pointsOf = (figure: string) => {
    const known = isWhole() ? report.current() : undefined;
    if (known === undefined) return undefined;
    const { by_state, needs_attention, forwarding, incomplete } = known;
    const all: Record<string, v.InferOutput<typeof Points>> = {
      ...by_state,
      needs_attention,
      forwarding,
      incomplete,
    };
    return all[figure]?.some((point) => point !== null) ? all[figure] : undefined;
  };
  const pick = (index: number) => {
    const at = report.current()?.sampled_at[index];
    if (at) navigate(viewPath(withTime(view(), at)), { scroll: false });
  };
  return (figure) => (
    <Show when={pointsOf(figure)}>
      {(points) => <TrendLine points={points()} label={rangeText(points())} onPick={pick} />}
    </Show>
  );
};

const rangeText = (points: readonly (number | null)[]) => {
  const known = points.filter((point) => point !== null);
  return `Last 24 h: ${formatCount(Math.min(...known))} to ${formatCountOf(Math.max(...known), "host")}`;
};
