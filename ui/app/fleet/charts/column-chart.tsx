import { createUniqueId, Index, type JSX, Show } from "solid-js";
import { formatCompact } from "../../format/amount.ts";
import type { FleetFilter } from "../query-language/filter.ts";
import { type Bar, barBase, chartHeight, linkedBars, linkName, type Tick } from "./layout.ts";
import { createRoving, type Roving } from "./roving.ts";

/** Bars that stand on an axis, each a link to the fleet under its filter. Geometry is in attributes alone, widths in percent. */
export const ColumnChart = (props: {
  title: string;
  bars: readonly Bar[];
  ticks: readonly Tick[];
  hrefOf: (change: FleetFilter) => string;
  /** What lies behind the bars. */
  children?: JSX.Element;
}) => {
  const hatching = createUniqueId();
  const roving = createRoving(() => linkedBars(props.bars));
  return (
    <svg
      class="chart"
      classList={{ "chart-dense": props.bars.length > 16 }}
      width="100%"
      height={chartHeight}
      role="toolbar"
      aria-label={`${props.title}: filters`}
      onKeyDown={roving.onKeyDown}
    >
      <Hatching id={hatching} />
      {props.children}
      <line class="chart-axis" x1="0" x2="100%" y1={barBase + 0.5} y2={barBase + 0.5} />
      <Index each={props.bars}>
        {(bar, index) => (
          <g>
            <Show when={bar().count > 0}>
              <BarLink bar={bar()} hrefOf={props.hrefOf} index={index} roving={roving}>
                <rect class="chart-hit" x={`${bar().x}%`} y="0" width={`${bar().width}%`} height={barBase} />
                <rect
                  class={bar().marked ? "chart-bar-marked" : "chart-bar"}
                  fill={bar().marked ? `url(#${hatching})` : undefined}
                  x={`${bar().x}%`}
                  y={barBase - bar().height}
                  width={`${bar().width}%`}
                  height={bar().height}
                />
                <text class="chart-count" x={`${bar().x + bar().width / 2}%`} y={barBase - bar().height - 3}>
                  {formatCompact(bar().count)}
                </text>
              </BarLink>
            </Show>
          </g>
        )}
      </Index>
      <Index each={props.ticks}>
        {(tick) => (
          <text class="chart-tick" x={`${tick().x}%`} y={chartHeight - 4} text-anchor={tick().anchor}>
            {tick().label}
          </text>
        )}
      </Index>
    </svg>
  );
};

/** What a bar consists of, as a link where a filter says the same as the bar. Its title is its name and its tooltip. */
export const BarLink = (props: {
  bar: Bar;
  hrefOf: (change: FleetFilter) => string;
  index: number;
  roving: Roving;
  children: JSX.Element;
}) => (
  // A group first: alone, an <a> would be made as an element of HTML.
  <g>
    <Show
      when={props.bar.filter}
      fallback={
        <g>
          {props.children}
          <title>{props.bar.name}</title>
        </g>
      }
    >
      {(filter) => (
        <g>
          <a
            class="chart-link"
            href={props.hrefOf(filter().change)}
            noScroll
            tabIndex={props.roving.tabIndexOf(props.index)}
            onFocusIn={() => props.roving.enter(props.index)}
          >
            <title>{linkName(props.bar)}</title>
            {props.children}
          </a>
        </g>
      )}
    </Show>
  </g>
);

/** The pattern of what is marked, so that it is told apart without colour. */
export const Hatching = (props: { id: string }) => (
  <defs>
    <pattern id={props.id} width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
      <rect class="chart-hatch-ground" width="5" height="5" />
      <rect class="chart-hatch-line" width="2.5" height="5" />
    </pattern>
  </defs>
);
