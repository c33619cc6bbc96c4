import { createMemo, For, Index, splitProps } from "solid-js";
import type { HourState } from "#proto/completeness/hour-state.ts";
import type { FleetCompleteness, HostStrip } from "#proto/completeness/report.ts";
import { createRoving } from "../fleet/charts/roving.ts";
import { formatCount } from "../format/format.ts";
import { dayHourText, hourMarks, type ShownState, shownStates } from "./hour-view.ts";

type FleetHour = FleetCompleteness["hours"][number];

const hourMs = 3_600_000;
const picture = { width: 1000, height: 160 };
/** A state that any host is in stays visible, however many others there are. */
const shareMin = 6;

interface Segment {
  state: HourState;
  top: number;
  height: number;
}

const stacked = shownStates.filter((state): state is HourState => state !== "undecided");

/** The shares of an hour's hosts from the top, worst first. */
const segmentsOf = ({ hosts }: FleetHour): Segment[] => {
  const present = stacked.filter((state) => (hosts[state] ?? 0) > 0);
  const total = present.reduce((sum, state) => sum + (hosts[state] ?? 0), 0);
  const sharedHeight = picture.height - shareMin * present.length;
  let top = 0;
  return present.map((state) => {
    const share = (hosts[state] ?? 0) / total;
    const segment = { state, top, height: shareMin + sharedHeight * share };
    top += segment.height;
    return segment;
  });
};

/** The hosts of each hour by state, as shares of a column; a click shows the hosts of that hour. */
export const FleetPicture = (props: {
  report: FleetCompleteness;
  hrefOf: (from: string, to: string) => string;
}) => {
  const fromMs = () => Date.parse(props.report.from);
  const hours = () => Math.max(1, (Date.parse(props.report.to) - fromMs()) / hourMs);
  const width = () => picture.width / hours();
  const columns = createMemo(() =>
    props.report.hours.map((hour) => ({
      hour,
      x: ((Date.parse(hour.from) - fromMs()) / hourMs) * width(),
      segments: segmentsOf(hour),
      to: new Date(Date.parse(hour.from) + hourMs).toISOString(),
    })),
  );
  const roving = createRoving(() => columns().map((_, index) => index));
  return (
    <figure class="hours-picture stack gap-1" aria-label="Hosts by state in each hour">
      <div class="hours-columns">
        <svg
          viewBox={`0 0 ${picture.width} ${picture.height}`}
          preserveAspectRatio="none"
          aria-hidden="true"
        >
          <HourPatterns />
          <For each={columns()}>
            {({ x, segments }) => (
              <For each={segments}>
                {({ state, top, height }) => (
                  <Bar
                    state={state}
                    x={x}
                    y={top}
                    width={Math.max(0.5, width() - gapOf(width()))}
                    height={height}
                  />
                )}
              </For>
            )}
          </For>
        </svg>
        {/* biome-ignore lint/a11y/noStaticElementInteractions: the arrow keys move among its links */}
        <div class="hours-links" onKeyDown={roving.onKeyDown}>
          <For each={columns()}>
            {({ hour, x, to }, index) => (
              <a
                href={props.hrefOf(hour.from, to)}
                style={{ "inset-inline-start": `${x / 10}%`, "inline-size": `${width() / 10}%` }}
                tabindex={roving.tabIndexOf(index())}
                onFocus={() => roving.enter(index())}
                title={`${dayHourText(hour.from)} UTC: ${countsText(hour)}`}
              >
                <span class="visually-hidden">{`${dayHourText(hour.from)} UTC: ${countsText(hour)}`}</span>
              </a>
            )}
          </For>
        </div>
      </div>
      <p class="hours-axis" aria-hidden="true">
        <span>{dayHourText(props.report.from)} UTC</span>
        <span>{dayHourText(props.report.to)}</span>
      </p>
    </figure>
  );
};

const gapOf = (width: number) => (width > 4 ? 1 : 0);

/** What marks a state beside its colour: lines over its bar. */
const patterns: Partial<Record<ShownState, string>> = {
  short: "M0 0 8 8M8 0 0 8",
  silent: "M0 2H8M0 6H8",
  late: "M0 4H8",
  core_out: "M0 8 8 0",
  undelivered: "M0 0 8 8",
};

/** The patterns that bars refer to; one set on a page. */
const HourPatterns = () => (
  <defs>
    <Index each={Object.entries(patterns)}>
      {(pattern) => (
        <pattern id={`hours-${pattern()[0]}`} width="8" height="8" patternUnits="userSpaceOnUse">
          <path class="hours-pattern" d={pattern()[1]} fill="none" />
        </pattern>
      )}
    </Index>
  </defs>
);

const Bar = (props: { state: ShownState; x: number; y: number; width: number; height: number }) => {
  const [own, box] = splitProps(props, ["state"]);
  return (
    <>
      <rect data-hour={own.state} {...box} />
      {own.state in patterns ? <rect {...box} fill={`url(#hours-${own.state})`} /> : null}
    </>
  );
};

/** Says how many hosts of an hour are in which state, worst first. */
export const countsText = ({ hosts }: FleetHour): string =>
  stacked
    .filter((state) => (hosts[state] ?? 0) > 0)
    .map((state) => `${formatCount(hosts[state] ?? 0)} ${hourMarks[state][0].toLowerCase()}`)
    // "complete, not delivered" has a comma of its own.
    .join("; ");

/** A host's hours as one row of bars. */
export const HoursStrip = (props: {
  host: Pick<HostStrip, "from" | "runs">;
  range: Pick<FleetCompleteness, "from" | "to"> | undefined;
  label: string;
}) => {
  const bars = createMemo(() => {
    const { from, runs } = props.host;
    const { from: start = from, to: end = from } = props.range ?? {};
    const perMs = 1000 / Math.max(1, Date.parse(end) - Date.parse(start));
    let x = (Date.parse(from) - Date.parse(start)) * perMs;
    return runs.map(({ state, hours }) => {
      const bar = { state, x, width: hours * 3_600_000 * perMs };
      x += bar.width;
      return bar;
    });
  });
  return (
    <svg
      class="hours-strip"
      viewBox="0 0 1000 20"
      preserveAspectRatio="none"
      role="img"
      aria-label={props.label}
    >
      <For each={bars()}>
        {({ state, x, width }) =>
          state === null ? null : (
            <Bar
              state={state}
              x={x}
              y={heights[state]?.[0] ?? 0}
              width={Math.max(width, 4)}
              height={heights[state]?.[1] ?? 20}
            />
          )
        }
      </For>
    </svg>
  );
};

/** Where a state's bar is in a strip, so that it differs in shape as well: what is short is full, what is complete a line. */
const heights: Partial<Record<ShownState, readonly [y: number, height: number]>> = {
  complete: [14, 6],
  undelivered: [12, 8],
  not_running: [17, 3],
  not_accounted: [17, 3],
  late: [6, 14],
  core_out: [6, 14],
};
