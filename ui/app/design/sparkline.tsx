import { Index } from "solid-js";
import "./sparkline.css";

/** A bar of a sparkline: its value, and what it says in words. */
export interface SparklineBar {
  value: number;
  /** `09:00 to 10:00: 312 envelopes`, as the tooltip. */
  name: string;
  /** What a click shows; the table beside it has the same link for the keyboard. */
  href?: string;
}

const height = 40;
const step = 10;

/**
 * Bars on a line, by the square root of their values, so that a few stay visible beside thousands. It has no text: the figures are in a
 * table beside it.
 */
export const Sparkline = (props: { bars: readonly SparklineBar[] }) => {
  const highest = () => Math.sqrt(Math.max(1, ...props.bars.map(({ value }) => value)));
  const heightOf = (value: number) =>
    value === 0 ? 0 : Math.max(2, (Math.sqrt(value) / highest()) * height);
  return (
    <svg
      class="sparkline"
      viewBox={`0 0 ${props.bars.length * step} ${height}`}
      preserveAspectRatio="none"
      aria-hidden="true"
    >
      <Index each={props.bars}>
        {(bar, index) => (
          <g>
            <a href={bar().href} tabindex="-1">
              <rect class="sparkline-hit" x={index * step} y="0" width={step} height={height} />
              <title>{bar().name}</title>
            </a>
            <rect
              class="sparkline-bar"
              x={index * step + 1}
              y={height - heightOf(bar().value)}
              width={step - 2}
              height={heightOf(bar().value)}
            />
          </g>
        )}
      </Index>
    </svg>
  );
};
