import { For, Index } from "solid-js";
import "./sparkline.css";
import "./stacked-bar.css";

/** A bar of a sparkline: its value, and what it says in words. */
export interface SparklineBar {
  value: number;
  /** `09:00 to 10:00: 312 envelopes`, as the tooltip. */
  name: string;
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
            <rect class="sparkline-hit" x={index * step} y="0" width={step} height={height} />
            <rect
              class="sparkline-bar"
              x={index * step + 1}
              y={height - heightOf(bar().value)}
              width={step - 2}
              height={heightOf(bar().value)}
            />
            <title>{bar().name}</title>
          </g>
        )}
      </Index>
    </svg>
  );
};

/** Counts as one bar, a part behind the other; `label` says them. */
export const StackedBar = <Part extends string>(props: {
  label: string;
  /** In the order drawn; what they lack of `total` stays empty. */
  parts: readonly Part[];
  counts: Readonly<Record<Part, number>>;
  total: number;
}) => {
  const total = () => Math.max(1, props.total);
  const drawn = () => {
    let end = 0;
    return props.parts.flatMap((part) => {
      const from = end;
      const count = props.counts[part];
      end += count;
      return count > 0 ? [{ part, from, count }] : [];
    });
  };
  return (
    <svg
      class="stacked-bar"
      role="img"
      aria-label={props.label}
      viewBox={`0 0 ${total()} 1`}
      preserveAspectRatio="none"
    >
      <rect class="bar-track" width={total()} height="1" />
      <For each={drawn()}>
        {({ part, from, count }) => <rect data-bar={part} x={from} width={count} height="1" />}
      </For>
    </svg>
  );
};

/** The colour of a part, beside its figure. */
export const BarKey = (props: { part: string }) => (
  <svg class="bar-key" viewBox="0 0 1 1" aria-hidden="true">
    <rect data-bar={props.part} width="1" height="1" />
  </svg>
);
