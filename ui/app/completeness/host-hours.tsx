import { useLocation, useNavigate } from "@solidjs/router";
import { createMemo, For, Index, Show } from "solid-js";
import { HostCompleteness, type HostHourView } from "#proto/completeness/report.ts";
import { createReport } from "../api/live-report.tsx";
import { withQuery } from "../browser/with-query.ts";
import { List, Loaded } from "../design/report-parts.tsx";
import { createRoving } from "../fleet/charts/roving.ts";
import { formatCount, formatCountOf, formatDuration } from "../format/format.ts";
import { Time } from "../shell/page.tsx";
import { HourMark, HourShape } from "./hour-mark.tsx";
import {
  accountLines,
  dayHourText,
  deliveryText,
  hourLabel,
  hourMarks,
  shortageText,
  shownState,
  shownStates,
} from "./hour-view.ts";
import "./completeness.css";

const rangeText = (account: HostHourView["accounts"][number]) => {
  if (account.first_sequence !== null)
    return `sequences ${account.first_sequence} to ${account.last_sequence}`;
  return account.stopped ? "no collector ran" : "no record";
};

/** How much the clocks of a host and core may differ. */
const clockAheadSecondsMax = 120;

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
    <section class="page-section host-hours" id="completeness" aria-labelledby="completeness-title">
      <div class="page-tools">
        <h2 id="completeness-title">Completeness, last 7 days</h2>
        <div class="page-tools-end">
          <a href={`/completeness?host=${encodeURIComponent(report.current()?.host_id ?? "")}`}>
            Show in completeness
          </a>
        </div>
      </div>
      <Loaded report={report} what="hours">
        {(known) => (
          <>
            <p>{summaryOf(known().hours)}</p>
            <div class="hour-parts stack">
              <div class="stack gap-3">
                <table class="hour-grid" onKeyDown={roving.onKeyDown}>
                  <caption class="visually-hidden">
                    Hours in UTC, a row for each day. Arrow keys move, Enter opens the account of an
                    hour.
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
                <ul class="hour-legend">
                  <For each={shownStates.filter((state) => countOf(known().hours, state) > 0)}>
                    {(state) => (
                      <li title={hourMarks[state][1]}>
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
                  fallback={<p class="quiet">Choose a square to see the account of its hour.</p>}
                >
                  {(hour) => <HourAccount host={known().host_id} hour={hour()} />}
                </Show>
              </div>
            </div>
          </>
        )}
      </Loaded>
    </section>
  );
};

const countOf = (hours: readonly HostHourView[], state: string) =>
  hours.filter((hour) => shownState(hour.state) === state).length;

const summaryOf = (hours: readonly HostHourView[]) => {
  const decided = hours.filter(({ state }) => state !== null);
  if (decided.length === 0)
    return "No hour of this host is settled yet: the first is 15 minutes after its end.";
  const undelivered = countOf(decided, "undelivered");
  const stored = formatCount(countOf(decided, "complete") + undelivered);
  const lacking = undelivered === 0 ? "" : `, ${formatCount(undelivered)} of them not delivered`;
  return `${stored} of ${formatCountOf(decided.length, "settled hour")} complete${lacking}.`;
};

/** The days of hours, and 24 cells for each: the hour, or nothing outside of the range. */
const daysOf = (
  hours: readonly HostHourView[],
): { day: string; cells: (HostHourView | undefined)[] }[] =>
  [...Map.groupBy(hours, ({ from }) => from.slice(0, 10))].map(([day, ofDay]) => {
    const byHour = new Map(ofDay.map((hour) => [Number(hour.from.slice(11, 13)), hour]));
    return { day, cells: Array.from({ length: 24 }, (_, hour) => byHour.get(hour)) };
  });

/** The records produced, stored and delivered in an hour, the differences, and the accounts behind these figures. */
const HourAccount = (props: { host: string; hour: HostHourView }) => {
  const state = () => shownState(props.hour.state);
  return (
    <section
      class="panel stack hour-account"
      aria-label={`Account of ${dayHourText(props.hour.from)} UTC`}
    >
      <h3>
        {dayHourText(props.hour.from)} UTC <HourMark state={state()} />
      </h3>
      <p>{hourMarks[state()][1]}</p>
      <List class="hour-shortages" of={props.hour.shortages}>
        {(shortage) => sentence(shortageText(shortage))}
      </List>
      <Show
        when={props.hour.figures}
        fallback={
          <p class="quiet">
            Core has no account of this hour, or keeps it no longer.{" "}
            <Show when={props.hour.state}>
              <a download="" href={statementPath(props.host, props.hour.from)}>
                Download the statement
              </a>
            </Show>
          </p>
        }
      >
        {(figures) => (
          <>
            <dl class="facts">
              <For each={accountLines(figures())}>
                {({ words, amount, isLoss }) => (
                  <>
                    <dt>{words}</dt>
                    <dd data-loss={isLoss ? "" : undefined}>{amount}</dd>
                  </>
                )}
              </For>
              <For each={figures().delivered}>
                {(delivery) => (
                  <>
                    <dt>Export {delivery.export}</dt>
                    <dd
                      data-loss={delivery.rejected + delivery.rejected_items > 0 ? "" : undefined}
                    >
                      {deliveryText(delivery)}
                    </dd>
                  </>
                )}
              </For>
              <Show when={figures().delivered.length === 0}>
                <dt>Delivered</dt>
                <dd>no export is on</dd>
              </Show>
              <dt>The collector ran for</dt>
              <dd>{formatDuration(figures().ran_seconds)}</dd>
              <Show when={figures().clock_ahead_seconds > clockAheadSecondsMax}>
                <dt>The host's clock</dt>
                <dd data-loss="">{formatDuration(figures().clock_ahead_seconds)} ahead</dd>
              </Show>
            </dl>
            <p class="quiet">
              Accounts, each signed with the host's key.{" "}
              <a download="" href={statementPath(props.host, props.hour.from)}>
                Download the statement
              </a>{" "}
              with them, to verify it offline.
            </p>
            <List of={props.hour.accounts}>
              {(account) => (
                <>
                  <code title={account.queue_id}>{account.queue_id.slice(0, 8)}</code> account{" "}
                  {account.number}: {rangeText(account)}, received <Time at={account.received_at} />
                  <Show when={account.refused}>{(refused) => <b> refused: {refused()}</b>}</Show>
                </>
              )}
            </List>
          </>
        )}
      </Show>
    </section>
  );
};

const statementPath = (host: string, from: string) =>
  `/api/core/collector/completeness/statements/${from}?host=${encodeURIComponent(host)}`;

const sentence = (text: string) => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
