import { For } from "solid-js";
import "./stacked-bar.css";

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
