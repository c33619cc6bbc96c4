import { Show } from "solid-js";
import type { RolloutState, TargetStatus } from "../../../proto/rollout/vocabulary.ts";
import { Icon } from "../design/parts.tsx";
import { StackedBar } from "../design/stacked-bar.tsx";
import { formatCount } from "../format/format.ts";
import {
  barStatuses,
  rolloutStateShapes,
  stateWords,
  statusWords,
  targetsPath,
} from "./rollout-view.ts";
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
  const label = () =>
    barStatuses
      .filter((status) => props.counts[status] > 0)
      .map((status) => `${formatCount(props.counts[status])} ${statusWords[status]}`)
      .join(", ");
  return (
    <StackedBar
      label={label() || "no hosts"}
      parts={barStatuses}
      counts={props.counts}
      total={props.counts.targets}
    />
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
