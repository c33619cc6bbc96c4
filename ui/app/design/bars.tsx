import { For, type JSX, Show } from "solid-js";
import { formatCount } from "../format/format.ts";
import "./stacked-bar.css";

/** Counts as one bar, a part behind the other; its name says them. */
export const StackedBar = <Part extends string>(props: {
  /** In the order drawn; what they lack of `total` stays empty. */
  parts: readonly Part[];
  counts: Readonly<Record<Part, number>>;
  total: number;
  /** The words of a part; by default its name. */
  wordsOf?: (part: Part) => string;
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
      aria-label={
        drawn()
          .map(({ part, count }) => `${formatCount(count)} ${props.wordsOf?.(part) ?? part}`)
          .join(", ") || "no hosts"
      }
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

/** A figure of a `bar-figures` list with its name, the colour of its part of the bar, and what it counts. */
export const BarFigure = (props: {
  name: string;
  part?: string;
  about: JSX.Element;
  children: JSX.Element;
}) => (
  <div>
    <dt>
      <Show when={props.part}>
        <svg class="bar-key" viewBox="0 0 1 1" aria-hidden="true">
          <rect data-bar={props.part} width="1" height="1" />
        </svg>
      </Show>
      {props.name}
    </dt>
    <dd>
      {props.children}
      <small>{props.about}</small>
    </dd>
  </div>
);
