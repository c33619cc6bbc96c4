import { createMemo, For, type JSX, Show } from "solid-js";
import { changeFilter, type FleetFilter } from "#proto/fleet-health/filter.ts";
import type { FleetSummaryView, FleetThresholdsView } from "#proto/fleet-health/report.ts";
import { attentionStates, type FleetState, fleetStates } from "#proto/fleet-health/vocabulary.ts";
import { PopoverMenu } from "#ui/app/design/buttons.tsx";
import { Icon, StateMark } from "#ui/app/design/icon.tsx";
import { lazyPart } from "#ui/app/design/lazy-part.tsx";
import { formatCount } from "#ui/app/format/format.ts";
import { type FleetView, viewPath, withFilter } from "../view/view-state.ts";
import type { TrendOf } from "./create-trends.tsx";
import {
  figureWords,
  isFigureShown,
  type SummaryFigure,
  summaryFigures,
  toggleFigure,
  toggleState,
} from "./summary-view.ts";

const StateRuleList = lazyPart(
  "State definitions",
  async () => (await import("./state-rule-list.tsx")).StateRuleList,
);

interface SummaryProps {
  /** Undefined while it loads. */
  summary: FleetSummaryView | undefined;
  /** The summary is of another view: its figures are left out until those of this one arrive. */
  isChanging?: boolean;
  view: FleetView;
  trendOf?: TrendOf;
}

const isAlarm = (count: SummaryFigure["count"]) =>
  count === "stopped" || count === "never_forwarded";

/** The fleet in one line of figures; each is a link to the rows that it counts, or removes its filter where they are shown. */
export const SummaryLine = (props: SummaryProps) => {
  const hrefOf = (filter: FleetFilter | undefined) =>
    filter && viewPath(withFilter(props.view, filter));
  return (
    <ul
      class="summary"
      aria-label="Fleet"
      data-loading={props.summary === undefined ? "" : undefined}
    >
      <For each={summaryFigures}>
        {(figure) => (
          <li>
            <a
              class="summary-figure"
              href={hrefOf(toggleFigure(props.view.filter, figure))}
              noScroll
              aria-current={isFigureShown(props.view.filter, figure) ? "true" : undefined}
              title={isFigureShown(props.view.filter, figure) ? "Remove this filter" : undefined}
              data-alarm={isAlarm(figure.count) && props.summary?.[figure.count] ? "" : undefined}
            >
              {/* As wide as a fleet of thousands, until the first answer. */}
              <b>{props.isChanging ? "…" : formatCount(props.summary?.[figure.count] ?? 1000)}</b>{" "}
              {figureWords(props.view.filter, figure)}
            </a>
            {props.trendOf?.(figure.count)}
          </li>
        )}
      </For>
    </ul>
  );
};

/** Returns the start and width of each state's segment, in thousandths; a state with any collector stays visible. */
const segmentsOf = (
  summary: FleetSummaryView,
): { state: FleetState; from: number; width: number }[] => {
  const count = (state: FleetState) => summary.by_state[state] ?? 0;
  const present = fleetStates.filter((state) => count(state) > 0);
  const total = present.reduce((sum, state) => sum + count(state), 0);
  const widthMin = 6;
  const rest = 1000 - widthMin * present.length;
  let from = 0;
  return present.map((state) => {
    const segment = { state, from, width: widthMin + (rest * count(state)) / total };
    from += segment.width;
    return segment;
  });
};

/**
 * The states as one bar and as chips, each a link to the hosts that it counts under the other filters, after the filter of all
 * hosts that need somebody. Its count ignores the states, so it replaces them.
 */
export const StateBar = (props: SummaryProps & { children?: JSX.Element }) => {
  const states = () => props.view.filter.states ?? [];
  const hrefs = createMemo(() =>
    Object.fromEntries(
      fleetStates.map((state) => [
        state,
        viewPath(withFilter(props.view, toggleState(props.view.filter, state))),
      ]),
    ),
  );
  const countOf = (state: FleetState) => props.summary?.by_state[state] ?? 0;
  // Until the counts of another filter arrive, those on the page are not its own.
  const shown = (count: number) => (props.isChanging ? undefined : count);
  const isAttention = () => props.view.filter.attention !== undefined;
  /** A host that does not forward needs attention, whatever its state: the two counts may overlap. */
  const isHealthyAmong = () =>
    props.summary !== undefined &&
    props.isChanging !== true &&
    props.summary.needs_attention > attentionStates.reduce((sum, state) => sum + countOf(state), 0);
  const attentionHref = () => {
    const attention = isAttention() ? undefined : (["needed"] as const);
    return viewPath(
      withFilter(props.view, changeFilter(props.view.filter, { attention, states: undefined })),
    );
  };
  return (
    <section
      class="state-bar"
      aria-label="States"
      data-loading={props.summary === undefined ? "" : undefined}
    >
      <svg
        class="state-segments"
        viewBox="0 0 1000 1"
        preserveAspectRatio="none"
        aria-hidden="true"
      >
        <For each={props.summary && segmentsOf(props.summary)}>
          {({ state, from, width }) => (
            <rect data-state={state} x={from} width={Math.max(1, width - 1.5)} height="1" />
          )}
        </For>
      </svg>
      <ul class="state-chips">
        <li>
          <Chip
            href={attentionHref()}
            chosen={isAttention()}
            count={shown(props.summary?.needs_attention ?? 0)}
            note={isHealthyAmong() ? "some healthy" : undefined}
            title="Hosts in a state that needs somebody, and healthy ones that do not forward"
          >
            <span class="state-mark chip-attention">
              <Icon name="warning" />
              Needs attention
            </span>
          </Chip>
          {props.trendOf?.("needs_attention")}
        </li>
        <For each={fleetStates}>
          {(state) => (
            <li data-state={state}>
              <Chip
                href={hrefs()[state] ?? ""}
                chosen={states().includes(state)}
                count={shown(countOf(state))}
              >
                <StateMark state={state} />
              </Chip>
              {props.trendOf?.(state)}
            </li>
          )}
        </For>
        <Show when={props.children}>{(legend) => <li class="state-legend">{legend()}</li>}</Show>
      </ul>
    </section>
  );
};

/** A filter of the states: its words and the count of its hosts, once it is known. */
const Chip = (props: {
  href: string;
  chosen: boolean;
  count: number | undefined;
  /** The parts of the count, shown where there is room. */
  note?: string | undefined;
  title?: string;
  children: JSX.Element;
}) => (
  <a
    class="chip"
    href={props.href}
    title={props.title}
    noScroll
    aria-current={props.chosen ? "true" : undefined}
    data-none={props.count === 0 ? "" : undefined}
  >
    {props.children}
    <b>
      {props.count === undefined ? "…" : formatCount(props.count)}
      <Show when={props.note}>
        <span class="chip-note">, {props.note}</span>
      </Show>
    </b>
  </a>
);

/** The rule of each state in order of precedence, with the thresholds of the report, in a popover. */
export const StateLegend = (props: { thresholds: FleetThresholdsView | undefined }) => (
  <PopoverMenu id="state-legend" button="State definitions" icon="info">
    <Show when={props.thresholds}>
      {(thresholds) => <StateRuleList thresholds={thresholds()} />}
    </Show>
  </PopoverMenu>
);
