import { createUniqueId, Index, type JSX, Show } from "solid-js";
import type { FleetFilter } from "../../../../proto/fleet-health/filter.ts";
import { formatCount, formatTiny } from "../../format/format.ts";
import {
  type Bar,
  barBase,
  chartHeight,
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
export const ColumnChart = (props: {
  title: string;
  bars: readonly Bar[];
  ticks: readonly Tick[];
  hrefOf: HrefOf;
  /** Drawn behind the bars. */
  children?: JSX.Element;
}) => (
  <Chart title={props.title} bars={props.bars} dense={props.bars.length > 16}>
    {(hatching, roving) => (
      <>
        {props.children}
        <line class="chart-axis" x1="0" x2="100%" y1={barBase + 0.5} y2={barBase + 0.5} />
        <Index each={props.bars}>
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
        <Index each={props.ticks}>
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
const cutName = (name: string): string =>
  name.length > nameLengthMax ? `${name.slice(0, nameLengthMax - 3)}…` : name;

/** A horizontal bar for each version: its name before, its count and fault after. */
export const VersionChart = (props: {
  title: string;
  rows: readonly VersionRow[];
  hrefOf: HrefOf;
}) => (
  <Chart title={props.title} bars={props.rows} orientation="vertical">
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
      height={chartHeight}
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
