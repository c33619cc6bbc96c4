import { createMemo, For, Show } from "solid-js";
import type { FleetSummaryView } from "../../../../proto/fleet-health/report.ts";
import { type FleetState, fleetStates } from "../../../../proto/fleet-health/vocabulary.ts";
import { formatCount } from "../../format/amount.ts";
import { StateMark } from "../../icons/state-mark.tsx";
import { changeFilter, statesOf } from "../query-language/filter.ts";
import { type FleetView, viewPath, withFilter } from "../view/view-state.ts";

/** Where each state's part of the bar begins, and how wide it is, in thousandths; a state that has any collector is visible. */
const segmentsOf = (summary: FleetSummaryView): { state: FleetState; from: number; width: number }[] => {
  const present = fleetStates.filter((state) => (summary.by_state[state] ?? 0) > 0);
  const total = present.reduce((sum, state) => sum + (summary.by_state[state] ?? 0), 0);
  const widthMin = 6;
  const rest = 1000 - widthMin * present.length;
  let from = 0;
  return present.map((state) => {
    const width = widthMin + (rest * (summary.by_state[state] ?? 0)) / total;
    const segment = { state, from, width };
    from += width;
    return segment;
  });
};

/** The nine states as one bar and nine filters, with their counts under the other filters. */
export const StateBar = (props: { summary: FleetSummaryView | undefined; view: FleetView }) => {
  const states = () => props.view.filter.states ?? [];
  const hrefs = createMemo(() =>
    Object.fromEntries(
      fleetStates.map((state) => {
        const chosen = states();
        const toggled = chosen.includes(state) ? chosen.filter((one) => one !== state) : [...chosen, state];
        const filter = changeFilter(props.view.filter, { states: statesOf(toggled) });
        return [state, viewPath(withFilter(props.view, filter))];
      }),
    ),
  );
  return (
    <section class="state-bar" aria-label="States" data-unknown={props.summary === undefined ? "" : undefined}>
      <svg class="state-segments" viewBox="0 0 1000 1" preserveAspectRatio="none" aria-hidden="true">
        <Show when={props.summary}>
          {(summary) => (
            <For each={segmentsOf(summary())}>
              {({ state, from, width }) => (
                <rect data-state={state} x={from} width={Math.max(1, width - 1.5)} height="1" />
              )}
            </For>
          )}
        </Show>
      </svg>
      <ul class="state-chips">
        <For each={fleetStates}>
          {(state) => (
            <li>
              <a
                class="chip"
                href={hrefs()[state]}
                noScroll
                aria-current={states().includes(state) ? "true" : undefined}
                data-none={props.summary?.by_state[state] === 0 ? "" : undefined}
              >
                <StateMark state={state} />
                <b>{formatCount(props.summary?.by_state[state] ?? 0)}</b>
              </a>
            </li>
          )}
        </For>
      </ul>
    </section>
  );
};
