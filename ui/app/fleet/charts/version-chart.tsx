import { createUniqueId, Index } from "solid-js";
import { formatCount } from "../../format/amount.ts";
import type { FleetFilter } from "../query-language/filter.ts";
import { BarLink, Hatching } from "./column-chart.tsx";
import { chartHeight, linkedBars } from "./layout.ts";
import { createRoving } from "./roving.ts";
import { type VersionRow, versionBars, versionRowHeight } from "./version-layout.ts";

const nameLengthMax = 18;

/** A long name without its end, which the tooltip has. */
const cutName = (name: string): string => (name.length > nameLengthMax ? `${name.slice(0, nameLengthMax - 3)}…` : name);

/** A lying bar for each version: its name before, its count and what is wrong with it behind. */
export const VersionChart = (props: {
  title: string;
  rows: readonly VersionRow[];
  hrefOf: (change: FleetFilter) => string;
}) => {
  const hatching = createUniqueId();
  const roving = createRoving(() => linkedBars(props.rows));
  return (
    <svg
      class="chart"
      width="100%"
      height={chartHeight}
      role="toolbar"
      aria-orientation="vertical"
      aria-label={`${props.title}: filters`}
      onKeyDown={roving.onKeyDown}
    >
      <Hatching id={hatching} />
      <Index each={props.rows}>
        {(row, index) => {
          const top = index * versionRowHeight;
          const middle = top + versionRowHeight / 2;
          return (
            <BarLink bar={row()} hrefOf={props.hrefOf} index={index} roving={roving}>
              <rect class="chart-hit" y={top} width="100%" height={versionRowHeight} />
              {/* A picture of its own cuts off a long name. */}
              <svg aria-hidden="true" x="0" y={top} width={`${versionBars.x - 2}%`} height={versionRowHeight}>
                <text class="chart-label" y={versionRowHeight / 2 + 4}>
                  {cutName(row().label)}
                </text>
              </svg>
              <rect
                class={row().marked ? "chart-bar-marked" : "chart-bar"}
                fill={row().marked ? `url(#${hatching})` : undefined}
                x={`${row().x}%`}
                y={middle - row().height / 2}
                width={`${row().width}%`}
                height={row().height}
              />
              <text class="chart-label" x={`${row().x + row().width}%`} dx="6" y={middle + 4}>
                {formatCount(row().count)}
                <tspan class="chart-note"> {row().note}</tspan>
              </text>
            </BarLink>
          );
        }}
      </Index>
    </svg>
  );
};
