import { For, Show } from "solid-js";
import type { HostHourView } from "#proto/completeness/report.ts";
import { List } from "../design/report-parts.tsx";
import { formatBytes, formatCount, formatCountOf, formatDuration } from "../format/format.ts";
import { Time } from "../shell/page.tsx";
import { HourMark } from "./hour-mark.tsx";
import {
  amountOf,
  dayHourText,
  hourMarks,
  rulesSentence,
  sentence,
  shortageText,
  shownState,
} from "./hour-view.ts";

type HourFigures = NonNullable<HostHourView["figures"]>;

/** A line of an hour's account: what, how many, and whether it is a difference. */
type AccountLine = readonly [words: string, amount: string, isLoss: boolean];

/** Describes the part of an hour that an export has delivered, and the part that its backend rejected. */
const deliveryLine = (delivery: HourFigures["delivered"][number]): AccountLine => {
  const { rejected, rejected_items: items } = delivery;
  const parts = [
    delivery.delivered ? "delivered" : "not delivered yet",
    ...(rejected > 0 ? [`${formatCountOf(rejected, "record")} rejected`] : []),
    ...(items > 0 ? [`${amountOf("export_rejected_items", items)} rejected`] : []),
  ];
  return [`Export ${delivery.export}`, parts.join(", "), rejected + items > 0];
};

/** How much the clocks of a host and core may differ. */
const clockAheadSecondsMax = 120;

/** Returns the lines of an hour's figures: accepted, stored and delivered always, the differences where there are any. */
const accountLines = (figures: HourFigures): AccountLine[] => {
  const { refused, delivered, file_gap_bytes: gap, clock_ahead_seconds: ahead } = figures;
  const lines: [string, number, boolean][] = [
    ["Accepted by the collector", figures.accepted, false],
    ["Stored by core", figures.stored, false],
    ["Discarded by core, as configured", figures.discarded, false],
    ["Rejected by core", figures.rejected, true],
    ["Lost in a restore", figures.lost, true],
    ["Accepted and never received", figures.missing, true],
    ["Dropped: the queue was full", refused.queue_full ?? 0, true],
    ["Dropped: too large", refused.too_large ?? 0, true],
    ["Refused: malformed", refused.malformed ?? 0, false],
    ["Refused: the sender was told to retry", refused.retry ?? 0, false],
    ["Dropped by age in this hour, whenever accepted", figures.expired, true],
    ["Damaged on the host's disk", figures.damaged, true],
  ];
  const shown: AccountLine[] = lines
    .filter(([, count], index) => index < 2 || count > 0)
    .map(([words, count, isLoss]) => [words, formatCount(count), isLoss]);
  if (gap > 0) shown.push(["Lost in a file rotation", formatBytes(gap), true]);
  shown.push(...delivered.map(deliveryLine));
  if (delivered.length === 0) shown.push(["Delivered", "no export is on", false]);
  shown.push(["The collector ran for", formatDuration(figures.ran_seconds), false]);
  if (ahead > clockAheadSecondsMax)
    shown.push(["The host's clock", `${formatDuration(ahead)} ahead`, true]);
  return shown;
};

const rangeText = (account: HostHourView["accounts"][number]) => {
  if (account.first_sequence !== null)
    return `sequences ${account.first_sequence} to ${account.last_sequence}`;
  return account.stopped ? "no collector ran" : "no record";
};

/** The records produced, stored and delivered in an hour, the differences, and the accounts behind these figures. */
export const AccountOfHour = (props: { host: string; hour: HostHourView }) => {
  const state = () => shownState(props.hour.state);
  return (
    <section
      class="panel stack hour-account"
      aria-label={`Hour from ${dayHourText(props.hour.from)} UTC`}
    >
      <h3>
        {dayHourText(props.hour.from)} UTC <HourMark state={state()} />
      </h3>
      <p>
        {hourMarks[state()][1]} {rulesSentence([props.hour])}
      </p>
      <List class="hour-shortages" of={props.hour.shortages}>
        {(shortage) => sentence(shortageText(shortage))}
      </List>
      <Show
        when={props.hour.figures}
        fallback={
          <p class="quiet">
            Core has no report of this hour from the host, or keeps it no longer.{" "}
            <Show when={props.hour.state}>
              <StatementLink {...props} />
            </Show>
          </p>
        }
      >
        {(figures) => (
          <>
            <dl class="facts">
              <For each={accountLines(figures())}>
                {([words, amount, isLoss]) => (
                  <>
                    <dt>{words}</dt>
                    <dd data-loss={isLoss ? "" : undefined}>{amount}</dd>
                  </>
                )}
              </For>
            </dl>
            <p class="quiet">
              The host's reports, each signed with its key. <StatementLink {...props} /> with them,
              to verify it offline.
            </p>
            <List of={props.hour.accounts}>
              {(account) => (
                <>
                  <code title={account.queue_id}>{account.queue_id.slice(0, 8)}</code> report{" "}
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

const StatementLink = (props: { host: string; hour: HostHourView }) => (
  <a
    download=""
    href={`/api/core/collector/completeness/statements/${props.hour.from}?host=${encodeURIComponent(props.host)}`}
  >
    Download the statement
  </a>
);
