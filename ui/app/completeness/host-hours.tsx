import { useLocation, useNavigate } from "@solidjs/router";
import { createMemo, For, Index, Show } from "solid-js";
import { HostCompleteness, type HostHourView } from "#proto/completeness/report.ts";
import { createReport } from "../api/live-report.tsx";
import { withQuery } from "../browser/with-query.ts";
import { Loaded, Section } from "../design/report-parts.tsx";
import { createRoving } from "../fleet/charts/roving.ts";
import { formatCount, formatCountOf } from "../format/format.ts";
import { AccountOfHour } from "./hour-account.tsx";
import { HourMark, HourShape } from "./hour-mark.tsx";
import { hourLabel, hourMarks, rulesSentence, shownState, shownStates } from "./hour-view.ts";
import "./completeness.css";

/** The hours of a host's last week as squares, a row for each UTC day; a click opens an hour's account. */
export const HostHours = (props: { id: string }) => {
  const location = useLocation();
  const navigate = useNavigate();
  const report = createReport({
    schema: HostCompleteness,
    path: () => `/api/core/collector/hosts/${props.id}/completeness`,
  });
  const hours = () => report.current()?.hours ?? [];
  const chosen = () => new URLSearchParams(location.search).get("hour");
  const open = createMemo(() => hours().find(({ from }) => from === chosen()));
  const roving = createRoving(() => hours().map((_, index) => index), {
    perRow: 24,
    start: () => {
      const all = hours();
      const hour = open();
      return hour === undefined ? all.length - 1 : all.indexOf(hour);
    },
  });
  const choose = (from: string) => {
    const params = new URLSearchParams(location.search);
    if (from === chosen()) params.delete("hour");
    else params.set("hour", from);
    navigate(withQuery(location.pathname, params), { replace: true, scroll: false });
  };
  return (
    <Section
      id="completeness"
      title="Completeness, last 7 days"
      level="h2"
      class="host-hours"
      tools={
        <a href={`/data/completeness?host=${encodeURIComponent(report.current()?.host_id ?? "")}`}>
          Show in completeness
        </a>
      }
    >
      <Loaded report={report} what="hours">
        {(known) => (
          <>
            <p>{summaryOf(known().hours)}</p>
            <div class="hour-parts stack">
              <div class="stack gap-3">
                <table class="hour-grid" onKeyDown={roving.onKeyDown}>
                  <caption class="visually-hidden">
                    Hours in UTC, a row for each day. Arrow keys move, Enter opens an hour.
                  </caption>
                  <thead>
                    <tr>
                      <th scope="col">UTC</th>
                      <Index each={[0, 6, 12, 18]}>
                        {(hour) => (
                          <th scope="colgroup" colspan="6">
                            {String(hour()).padStart(2, "0")}
                          </th>
                        )}
                      </Index>
                    </tr>
                  </thead>
                  <tbody>
                    <For each={daysOf(known().hours)}>
                      {({ day, cells }) => (
                        <tr>
                          <th scope="row">{day.slice(5)}</th>
                          <For each={cells}>
                            {(hour) => (
                              <td>
                                <Show when={hour}>
                                  {(known) => (
                                    <button
                                      type="button"
                                      tabindex={roving.tabIndexOf(hours().indexOf(known()))}
                                      aria-pressed={known().from === chosen()}
                                      aria-label={hourLabel(known())}
                                      title={hourLabel(known())}
                                      onFocus={() => roving.enter(hours().indexOf(known()))}
                                      onClick={() => choose(known().from)}
                                    >
                                      <HourShape state={shownState(known().state)} />
                                    </button>
                                  )}
                                </Show>
                              </td>
                            )}
                          </For>
                        </tr>
                      )}
                    </For>
                  </tbody>
                </table>
                <ul class="hour-legend row">
                  <For each={shownStates.filter((state) => countOf(known().hours, state) > 0)}>
                    {(state) => (
                      <li class="row" title={hourMarks[state][1]}>
                        <HourMark state={state} />{" "}
                        <b>{formatCount(countOf(known().hours, state))}</b>
                      </li>
                    )}
                  </For>
                </ul>
              </div>
              <div aria-live="polite">
                <Show
                  when={open()}
                  fallback={<p class="quiet">Choose a square to see its hour.</p>}
                >
                  {(hour) => <AccountOfHour host={known().host_id} hour={hour()} />}
                </Show>
              </div>
            </div>
          </>
        )}
      </Loaded>
    </Section>
  );
};

const countOf = (hours: readonly HostHourView[], state: string) =>
  hours.filter((hour) => shownState(hour.state) === state).length;

const summaryOf = (hours: readonly HostHourView[]) => {
  const decided = hours.filter(({ state }) => state !== null);
  if (decided.length === 0)
    return "No hour of this host has settled yet. Each settles 15 minutes after its end.";
  const undelivered = countOf(decided, "undelivered");
  const stored = formatCount(countOf(decided, "complete") + undelivered);
  const lacking =
    undelivered === 0 ? "" : `; ${formatCount(undelivered)} of these are not delivered yet`;
  const rules = rulesSentence(hours.slice(-24), "in the last 24 hours");
  return `${stored} of ${formatCountOf(decided.length, "settled hour")} ${decided.length === 1 ? "is" : "are"} complete${lacking}. ${rules}`;
};

/** The days of hours, and 24 cells for each: the hour, or nothing outside of the range. */
const daysOf = (
  hours: readonly HostHourView[],
): { day: string; cells: (HostHourView | undefined)[] }[] =>
  [...Map.groupBy(hours, ({ from }) => from.slice(0, 10))].map(([day, ofDay]) => {
    const byHour = new Map(ofDay.map((hour) => [Number(hour.from.slice(11, 13)), hour]));
    return { day, cells: Array.from({ length: 24 }, (_, hour) => byHour.get(hour)) };
  });
