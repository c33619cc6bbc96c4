import { For, Show } from "solid-js";
import type { RolloutState, TargetStatus } from "../../../proto/rollout/vocabulary.ts";
import { Icon } from "../design/icon.tsx";
import { formatCount } from "../format/format.ts";
import { barStatuses, rolloutStateShapes, stateWords, statusWords, targetsPath } from "./rollout-view.ts";
import "./rollouts.css";

/** How many targets have each status. */
export type TargetTotals = Readonly<Record<TargetStatus | "targets", number>>;

/** A state as shape and word. */
export const RolloutStateMark = (props: { state: RolloutState }) => (
  <span class="rollout-state" data-rollout-state={props.state}>
    <Icon name={rolloutStateShapes[props.state]} /> {stateWords[props.state]}
  </span>
);

/** Targets by status as a bar. Its name says the counts. */
export const TargetBar = (props: { counts: TargetTotals }) => {
  const parts = () => {
    let from = 0;
    return barStatuses.map((status) => {
      const part = { status, from, hosts: props.counts[status] };
      from += part.hosts;
      return part;
    });
  };
  const label = () =>
    parts()
      .filter(({ hosts }) => hosts > 0)
      .map(({ hosts, status }) => `${formatCount(hosts)} ${statusWords[status]}`)
      .join(", ");
  const width = () => Math.max(1, props.counts.targets);
  return (
    <svg
      class="target-bar"
      role="img"
      aria-label={label() || "no hosts"}
      viewBox={`0 0 ${width()} 1`}
      preserveAspectRatio="none"
    >
      <rect data-target="pending" width={width()} height="1" />
      <For each={parts()}>
        {(part) => (
          <Show when={part.hosts > 0}>
            <rect data-target={part.status} x={part.from} width={part.hosts} height="1" />
          </Show>
        )}
      </For>
    </svg>
  );
};

/** A count of targets as a link to exactly them; zero is plain text. */
export const TargetFigure = (props: {
  rolloutId: string;
  counts: TargetTotals;
  figure: keyof TargetTotals;
  wave?: number;
  /** What is counted, for whoever hears the link alone. */
  of: string;
}) => {
  const count = () => props.counts[props.figure];
  const path = () =>
    targetsPath(props.rolloutId, {
      wave: props.wave,
      status: props.figure === "targets" ? undefined : props.figure,
    });
  return (
    <Show when={count() > 0} fallback={<span class="quiet">0</span>}>
      <a href={path()}>
        {formatCount(count())}
        <span class="visually-hidden"> {props.of}</span>
      </a>
    </Show>
  );
};
