import { useLocation } from "@solidjs/router";
import {
  createEffect,
  createMemo,
  createSignal,
  createUniqueId,
  Index,
  type JSX,
  on,
  onCleanup,
  Show,
} from "solid-js";
import type { FleetFacets } from "#proto/fleet-health/facets.ts";
import type { FleetFilter } from "#proto/fleet-health/filter.ts";
import { createMedia } from "#ui/app/browser/create-media.ts";
import { readStoredText, storeText } from "#ui/app/browser/stored-text.ts";
import { whenIdle } from "#ui/app/browser/when-idle.ts";
import { formatCount, formatTiny } from "#ui/app/format/format.ts";
import {
  type Bar,
  barBase,
  chartHeight,
  layOutExpiry,
  layOutHeartbeats,
  layOutVersions,
  linkedBars,
  type Tick,
  type VersionRow,
  versionBars,
  versionRowHeight,
} from "./layouts.ts";
import { createRoving, type Roving } from "./roving.ts";

/** Returns the address of the view with its filter narrowed to that of a bar; undefined where no host can match both. */
type HrefOf = (figure: FleetFilter) => string | undefined;

/** Bars on an axis, each a link to the fleet under its filter. Attributes alone hold the geometry; widths are in percent. */
const ColumnChart = (props: {
  title: string;
  chart: { bars: readonly Bar[]; ticks: readonly Tick[] };
  hrefOf: HrefOf;
  /** Drawn behind the bars. */
  children?: JSX.Element;
}) => (
  <Chart title={props.title} bars={props.chart.bars} dense={props.chart.bars.length > 16}>
    {(hatching, roving) => (
      <>
        {props.children}
        <line class="chart-axis" x1="0" x2="100%" y1={barBase + 0.5} y2={barBase + 0.5} />
        <Index each={props.chart.bars}>
          {(bar, index) => (
            <g>
              <Show when={bar().count > 0}>
                <BarLink bar={bar()} hrefOf={props.hrefOf} index={index} roving={roving}>
                  <rect
                    class="chart-hit"
                    x={`${bar().x}%`}
                    y="0"
                    width={`${bar().width}%`}
                    height={barBase}
                  />
                  <BarRect bar={bar()} y={barBase - bar().height} hatching={hatching} />
                  <text
                    class="chart-count"
                    x={`${bar().x + bar().width / 2}%`}
                    y={barBase - bar().height - 3}
                  >
                    {formatTiny(bar().count)}
                  </text>
                </BarLink>
              </Show>
            </g>
          )}
        </Index>
        <Index each={props.chart.ticks}>
          {(tick) => (
            <text x={`${tick().x}%`} y={chartHeight - 4} text-anchor={tick().anchor}>
              {tick().label}
            </text>
          )}
        </Index>
      </>
    )}
  </Chart>
);

const nameLengthMax = 18;

/** Shortens a long name; the tooltip has the whole. */
const cutName = (name: string) =>
  name.length > nameLengthMax ? `${name.slice(0, nameLengthMax - 3)}…` : name;

/** A horizontal bar for each version: its name before, its count and fault after. */
const VersionChart = (props: { title: string; rows: readonly VersionRow[]; hrefOf: HrefOf }) => (
  <Chart
    title={props.title}
    bars={props.rows}
    height={Math.max(chartHeight, props.rows.length * versionRowHeight)}
    orientation="vertical"
  >
    {(hatching, roving) => (
      <Index each={props.rows}>
        {(row, index) => {
          const top = index * versionRowHeight;
          const middle = top + versionRowHeight / 2;
          return (
            <BarLink bar={row()} hrefOf={props.hrefOf} index={index} roving={roving}>
              <rect class="chart-hit" y={top} width="100%" height={versionRowHeight} />
              {/* A nested svg clips a long name. */}
              <svg
                aria-hidden="true"
                x="0"
                y={top}
                width={`${versionBars.x - 2}%`}
                height={versionRowHeight}
              >
                <text class="chart-label" y={versionRowHeight / 2 + 4}>
                  {cutName(row().label)}
                </text>
              </svg>
              <BarRect bar={row()} y={middle - row().height / 2} hatching={hatching} />
              <text class="chart-label" x={`${row().x + row().width}%`} dx="6" y={middle + 4}>
                {formatCount(row().count)}
                <tspan class="chart-note"> {row().note}</tspan>
              </text>
            </BarLink>
          );
        }}
      </Index>
    )}
  </Chart>
);

/** The frame of a chart: a toolbar of its links, and the hatching of marked bars, which needs no colour. */
const Chart = (props: {
  title: string;
  bars: readonly Bar[];
  dense?: boolean;
  height?: number;
  orientation?: "vertical";
  children: (hatching: string, roving: Roving) => JSX.Element;
}) => {
  const hatching = createUniqueId();
  const roving = createRoving(() => linkedBars(props.bars));
  return (
    <svg
      class="chart"
      classList={{ "chart-dense": props.dense ?? false }}
      width="100%"
      height={props.height ?? chartHeight}
      role="toolbar"
      aria-orientation={props.orientation}
      aria-label={`${props.title}: filters`}
      onKeyDown={roving.onKeyDown}
    >
      <defs>
        <pattern
          id={hatching}
          width="5"
          height="5"
          patternUnits="userSpaceOnUse"
          patternTransform="rotate(45)"
        >
          <rect class="chart-hatch-ground" width="5" height="5" />
          <rect class="chart-hatch-line" width="2.5" height="5" />
        </pattern>
      </defs>
      {props.children(hatching, roving)}
    </svg>
  );
};

const BarRect = (props: { bar: Bar; y: number; hatching: string }) => (
  <rect
    class={props.bar.marked ? "chart-bar-marked" : "chart-bar"}
    fill={props.bar.marked ? `url(#${props.hatching})` : undefined}
    x={`${props.bar.x}%`}
    y={props.y}
    width={`${props.bar.width}%`}
    height={props.bar.height}
  />
);

/** The content of a bar, as a link to its hosts. Its title is its name and its tooltip. */
const BarLink = (props: {
  bar: Bar;
  hrefOf: HrefOf;
  index: number;
  roving: Roving;
  children: JSX.Element;
}) => (
  // A template that begins with <a> would create an element of HTML, not of SVG: hence each <g>.
  <g>
    <a
      class="chart-link"
      href={props.hrefOf(props.bar.filter)}
      noScroll
      tabIndex={props.roving.tabIndexOf(props.index)}
      onFocusIn={() => props.roving.enter(props.index)}
    >
      <title>{props.bar.name}</title>
      {props.children}
    </a>
  </g>
);

const storageKey = "charts";

const narrow = "(max-width: 40em)";
/** Below this width the page has no room for charts beside chat. */
const cramped = "(max-width: 118.75em)";
/** Days per column of the expiry chart on screens of these widths: columns of 19 px and more, all on the screen. */
const daysPerBarNarrow = 3;
const daysPerBarMedium = 2;
const medium = "(max-width: 112.5em)";

interface ChartsProps {
  facets: FleetFacets | undefined;
  /** The facets could not be loaded: the charts keep their place, without titles. */
  failed: boolean;
  /** `typicalRenewalSeconds` of the rows on this page. */
  renewalSeconds: number | undefined;
  hrefOf: HrefOf;
}

/**
 * Three charts of the facets: heartbeat age, certificate expiry, versions. They keep their place while the facets load. On a narrow screen,
 * or beside chat, they would push the rows below the edge: they are closed until the operator opens them.
 */
export const FleetCharts = (props: ChartsProps) => {
  const location = useLocation();
  const isNarrow = createMedia(narrow);
  const isCramped = createMedia(cramped);
  const hasRoom = () => !(isNarrow() || (isCramped() && location.search.includes("chat=")));
  const [stored, setStored] = createSignal(readStoredText(storageKey) !== "closed");
  const [openedHere, setOpenedHere] = createSignal(false);
  createEffect(on(hasRoom, () => setOpenedHere(false)));
  const open = () => (hasRoom() ? stored() : openedHere());
  const toggle = ({ currentTarget: { open: isOpen } }: { currentTarget: HTMLDetailsElement }) => {
    // The page itself has opened or closed it.
    if (isOpen === open()) return;
    if (!hasRoom()) return setOpenedHere(isOpen);
    setStored(isOpen);
    storeText(storageKey, isOpen ? "open" : "closed");
  };
  return (
    <details class="charts" open={open()} onToggle={toggle}>
      <summary>
        <span class="charts-name">Charts</span>
      </summary>
      <Show when={open()}>
        <Charts {...props} />
      </Show>
    </details>
  );
};

/** The parts that are drawn one after the other. */
const parts = ["heartbeats", "expiry", "versions", "tables"] as const;

/** Returns a function that reports which parts to draw: after the first facets, one more whenever the browser is idle, so that none delays input. */
const createTurns = (isReady: () => boolean): ((part: (typeof parts)[number]) => boolean) => {
  const [drawn, setDrawn] = createSignal(0);
  let cancel: () => void = () => {};
  const next = () => {
    if (drawn() === parts.length) return;
    cancel = whenIdle(() => {
      setDrawn(drawn() + 1);
      next();
    });
  };
  createEffect(on(isReady, (ready) => ready && drawn() === 0 && next()));
  onCleanup(() => cancel());
  return (part) => parts.indexOf(part) < drawn();
};

const Charts = (props: ChartsProps) => {
  const isDrawn = createTurns(createMemo(() => props.facets !== undefined));
  const facetsOf = (part: (typeof parts)[number]) => (isDrawn(part) ? props.facets : undefined);
  const laidOut = <Layout,>(
    part: (typeof parts)[number],
    layOut: (facets: FleetFacets) => Layout,
  ) =>
    createMemo(() => {
      const facets = facetsOf(part);
      return facets && layOut(facets);
    });
  const heartbeats = laidOut("heartbeats", layOutHeartbeats);
  const isNarrow = createMedia(narrow);
  const isMedium = createMedia(medium);
  const daysPerBar = () => {
    if (isNarrow()) return daysPerBarNarrow;
    return isMedium() ? daysPerBarMedium : 1;
  };
  const expiry = laidOut("expiry", (facets) =>
    layOutExpiry(facets, props.renewalSeconds, daysPerBar()),
  );
  const versions = laidOut("versions", layOutVersions);
  /** That more versions are there than fit, and which are supported. */
  const versionNote = () => {
    const rows = versions()?.length;
    if (rows === undefined) return undefined;
    const min = props.facets?.thresholds.min_version;
    const isCut = rows * versionRowHeight > chartHeight;
    return [isCut && `${rows} rows`, min && `supported from ${min}`].filter(Boolean).join(", ");
  };
  return (
    <div class="charts-row" data-failed={props.failed ? "" : undefined}>
      <Figure
        title="Last heartbeat"
        note={heartbeats()?.threshold.label}
        bars={heartbeats()?.bars}
        table={isDrawn("tables")}
      >
        <Show when={heartbeats()}>
          {(chart) => (
            <ColumnChart title="Last heartbeat" chart={chart()} hrefOf={props.hrefOf}>
              <line
                class="chart-threshold"
                x1={`${chart().threshold.x}%`}
                x2={`${chart().threshold.x}%`}
                y1="0"
                y2={barBase}
              />
            </ColumnChart>
          )}
        </Show>
      </Figure>
      <Figure
        title="Certificate expiry"
        note={expiry()?.renewalWindow && "renewal window"}
        shaded
        dense
        bars={expiry()?.bars}
        table={isDrawn("tables")}
      >
        <Show when={expiry()}>
          {(chart) => (
            <ColumnChart title="Certificate expiry" chart={chart()} hrefOf={props.hrefOf}>
              <Show when={chart().renewalWindow}>
                {(shade) => (
                  <rect
                    class="chart-shade"
                    x={`${shade().x}%`}
                    y="0"
                    width={`${shade().width}%`}
                    height={barBase}
                  />
                )}
              </Show>
            </ColumnChart>
          )}
        </Show>
      </Figure>
      <Figure title="Versions" note={versionNote()} bars={versions()} table={isDrawn("tables")}>
        <Show when={versions()}>
          {(rows) => <VersionChart title="Versions" rows={rows()} hrefOf={props.hrefOf} />}
        </Show>
      </Figure>
    </div>
  );
};

/** The frame of a chart: its title, a note, and its figures as a table for screen readers. */
const Figure = (props: {
  title: string;
  note: string | undefined;
  /** The note explains a shade of the chart. */
  shaded?: boolean;
  /** Its columns need a width of their own, and scroll where there is less. */
  dense?: boolean;
  bars: readonly Bar[] | undefined;
  /** Its table is there. */
  table: boolean;
  children: JSX.Element;
}) => {
  const id = createUniqueId();
  const isEmpty = () => props.bars?.every(({ count }) => count === 0) === true;
  return (
    <figure
      class="chart-figure stack"
      classList={{ "chart-figure-dense": props.dense ?? false }}
      aria-labelledby={id}
    >
      <figcaption class="chart-caption">
        <span id={id}>{props.title}</span>
        <Show when={props.dense}>
          <span class="chart-scale">bar heights: square root of the count</span>
        </Show>
        <span
          class="chart-aside"
          classList={{ "chart-aside-shaded": props.shaded === true && props.note !== undefined }}
        >
          {props.note}
        </span>
      </figcaption>
      <div class="chart-space">
        <Show when={isEmpty()} fallback={props.children}>
          <p class="chart-none">No hosts</p>
        </Show>
      </div>
      <Show when={props.table && !isEmpty() && props.bars}>
        {(bars) => (
          <table class="visually-hidden">
            <caption>{props.title}</caption>
            <thead>
              <tr>
                <th scope="col">{props.title}</th>
                <th scope="col">Hosts</th>
              </tr>
            </thead>
            <tbody>
              <Index each={bars().filter(({ count }) => count > 0)}>
                {(bar) => (
                  <tr>
                    <th scope="row">{bar().label}</th>
                    <td>{formatCount(bar().count)}</td>
                  </tr>
                )}
              </Index>
            </tbody>
          </table>
        )}
      </Show>
    </figure>
  );
};
