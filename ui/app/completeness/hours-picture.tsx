import { For } from "solid-js";
import type { FleetCompleteness, HostStrip } from "#proto/completeness/report.ts";
import { Sparkline } from "../design/sparkline.tsx";
import { formatCountOf, formatDay } from "../format/format.ts";
import {
  clockText,
  countsText,
  dayHourText,
  endOfHour,
  hourLengthMs,
  hourMarks,
  incompleteHosts,
  type RunAt,
  runsOf,
  shownState,
} from "./hour-view.ts";

/** Returns the address of the hosts of a span. */
export type HrefOf = (from: string, to: string) => string;

type Range = Pick<FleetCompleteness, "from" | "to">;

/** The hosts with an incomplete hour over time, above the hours of each host; a click on an hour shows its hosts. */
export const AllHours = (props: { report: FleetCompleteness; hrefOf: HrefOf }) => {
  const bars = () => {
    const { from, to, hours } = props.report;
    const known = new Map(hours.map((hour) => [Date.parse(hour.from), hour]));
    const count = Math.round((Date.parse(to) - Date.parse(from)) / hourLengthMs);
    return Array.from({ length: count }, (_, index) => {
      const hour = known.get(Date.parse(from) + index * hourLengthMs);
      if (hour === undefined) return { value: 0, name: "Not settled yet" };
      return {
        value: incompleteHosts(hour),
        name: `${dayHourText(hour.from)} UTC: ${countsText(hour)}`,
        href: props.hrefOf(hour.from, endOfHour(hour.from)),
      };
    });
  };
  return (
    <div class="hours-all">
      <Sparkline bars={bars()} />
      <Axis {...props.report} />
    </div>
  );
};

/** The times of a range in UTC, at whole days, or every six hours of a single one. */
const Axis = (props: Range) => {
  const ticks = () => {
    const from = Date.parse(props.from);
    const to = Date.parse(props.to);
    const hours = (to - from) / hourLengthMs;
    const isShort = hours <= 48;
    const stepMs = (isShort ? 6 : Math.ceil(hours / 168) * 24) * hourLengthMs;
    const first = Math.ceil(from / stepMs) * stepMs;
    return Array.from({ length: Math.ceil((to - first) / stepMs) }, (_, index) => {
      const at = first + index * stepMs;
      const words = isShort ? `${clockText(new Date(at).toISOString())} UTC` : formatDay(at, "utc");
      return { words, share: (at - from) / (to - from) };
    }).filter(({ share }) => share < 0.92);
  };
  return (
    <p class="hours-axis" aria-hidden="true">
      <For each={ticks()}>
        {({ words, share }) => (
          <span style={{ "inset-inline-start": `${share * 100}%` }}>{words}</span>
        )}
      </For>
    </p>
  );
};

/** A host's hours as bars in a row: what is missing is high and has its word, where there is room; what is complete is low. */
export const HoursStrip = (props: { host: HostStrip; range: Range }) => {
  const runs = () => runsOf(props.host);
  const lead = () => (Date.parse(props.host.from) - Date.parse(props.range.from)) / hourLengthMs;
  return (
    <div class="hours-strip" role="img" aria-label={runs().map(runText).join(", ")}>
      <span style={{ "flex-grow": Math.max(0, lead()) }} />
      <For each={runs()}>
        {(run) => (
          <span data-hour={shownState(run.state)} style={{ "flex-grow": run.hours }}>
            <b>{hourMarks[shownState(run.state)][0]}</b>
          </span>
        )}
      </For>
    </div>
  );
};

const runText = ({ state, hours }: RunAt) =>
  `${formatCountOf(hours, "hour")} ${hourMarks[shownState(state)][0].toLowerCase()}`;
