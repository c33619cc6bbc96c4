import { useNavigate } from "@solidjs/router";
import { createMemo, createSignal, createUniqueId, For, Show } from "solid-js";
import {
  FleetTimelineView,
  type TimelineSpan,
  timelineSpans,
} from "#proto/fleet-health/timeline.ts";
import { parsePastTime } from "#proto/values.ts";
import { createReport } from "#ui/app/api/live-report.tsx";
import { Button } from "#ui/app/design/buttons.tsx";
import { formatCountOf } from "#ui/app/format/format.ts";
import { usePageContext } from "#ui/app/session/page-context.tsx";
import { type FleetView, viewPath, withTime } from "../view/view-state.ts";
import { drawTimeline, itemNear, type TimelineItem, timelineSize } from "./timeline-layout.ts";
import "./history.css";

const spanNames: Readonly<Record<TimelineSpan, string>> = { "24h": "24 h", "30d": "30 d" };
const refreshMs = 60_000;

/** The hosts that were not healthy over the last day or month, and a slider that shows the page as it was at a time of it. */
export const HistoryStrip = (props: { view: FleetView }) => {
  const strip = createStrip(props);
  return (
    <section class="history stack" aria-label="History of the whole fleet">
      <div class="history-head">
        <h2>Not healthy</h2>
        <p class="history-words">
          <Show when={strip.known()}>{strip.words(strip.position())}</Show>
        </p>
        <fieldset class="history-spans" aria-label="Span">
          <For each={timelineSpans}>
            {(each) => (
              <Button
                class="button-plain"
                aria-pressed={strip.span() === each}
                onClick={() => strip.setSpan(each)}
              >
                {spanNames[each]}
              </Button>
            )}
          </For>
        </fieldset>
      </div>
      <div class="history-drawing stack">
        <Drawing strip={strip} />
        <Show when={strip.known()}>
          <input
            type="range"
            aria-label="Show the page as it was at"
            aria-valuetext={strip.words(strip.position())}
            min={strip.start()}
            max={strip.end()}
            step={strip.stepMs()}
            value={Math.max(strip.start(), strip.position())}
            onInput={(event) => strip.setDragged(event.currentTarget.valueAsNumber)}
            onChange={(event) => strip.show(event.currentTarget.valueAsNumber)}
          />
        </Show>
      </div>
    </section>
  );
};

const createStrip = (props: { view: FleetView }) => {
  const { times } = usePageContext();
  const navigate = useNavigate();
  const [span, setSpan] = createSignal<TimelineSpan>("24h");
  const report = createReport({
    schema: FleetTimelineView,
    path: () => `/api/core/collector/health/timeline?span=${span()}`,
    intervalMs: refreshMs,
    showsAge: true,
  });
  const known = () => report.answer()?.value;
  const drawing = createMemo(() => {
    const timeline = known();
    return timeline && drawTimeline(timeline);
  });
  /** The time under the thumb while it is dragged. */
  const [dragged, setDragged] = createSignal<number>();
  const shownAt = () => (props.view.at === undefined ? undefined : parsePastTime(props.view.at));
  const start = () => Date.parse(known()?.from ?? "");
  const end = () => Date.parse(known()?.to ?? "");
  const stepMs = () => (known()?.step_seconds ?? 0) * 1000;
  const isNow = (at: number) => at > end() - stepMs();
  const words = (at: number) => {
    const timeline = known();
    if (timeline === undefined || isNow(at))
      return `Now. At most ${formatCountOf(drawing()?.highest ?? 0, "host")} at a time`;
    const item = itemNear(timeline, at);
    return `${times.text(item?.at ?? at)}: ${item ? countWords(item) : "not counted"}`;
  };
  const show = (at: number) => {
    setDragged(undefined);
    const timeline = known();
    const time =
      isNow(at) || !timeline
        ? undefined
        : (itemNear(timeline, at)?.at ?? new Date(at).toISOString());
    navigate(viewPath(withTime(props.view, time)), { scroll: false });
  };
  const position = () => dragged() ?? shownAt() ?? end();
  return { span, setSpan, known, drawing, setDragged, start, end, stepMs, position, words, show };
};

/** The areas of the states, the outages of core, and the time that is shown. */
const Drawing = (props: { strip: ReturnType<typeof createStrip> }) => {
  const { known, drawing, start, end, position } = props.strip;
  const hatching = createUniqueId();
  return (
    <svg
      viewBox={`0 0 ${timelineSize.width} ${timelineSize.height}`}
      preserveAspectRatio="none"
      aria-hidden="true"
    >
      <defs>
        <pattern
          id={hatching}
          width="6"
          height="6"
          patternUnits="userSpaceOnUse"
          patternTransform="rotate(45)"
        >
          <rect class="history-hatch" width="2" height="6" />
        </pattern>
      </defs>
      <For each={drawing()?.outages}>
        {({ x, width }) => (
          <rect x={x} width={width} height={timelineSize.height} fill={`url(#${hatching})`}>
            <title>Core could not receive</title>
          </rect>
        )}
      </For>
      <For each={drawing()?.areas}>{({ state, path }) => <path data-state={state} d={path} />}</For>
      <Show when={known() && position() < end()}>
        <rect
          class="history-line"
          x={Math.max(0, ((position() - start()) / (end() - start())) * timelineSize.width)}
          width="2"
          height={timelineSize.height}
        />
      </Show>
    </svg>
  );
};

const countWords = ({ needs_attention, by_state }: TimelineItem) => {
  const hosts = Object.values(by_state).reduce((sum, count) => sum + count, 0);
  return `${formatCountOf(needs_attention, "host needs", "hosts need")} attention, of ${formatCountOf(hosts, "host")}`;
};
