import { Show } from "solid-js";
import type { Rollout } from "#proto/rollout/rollout.ts";
import type { RolloutState, TargetStatus } from "#proto/rollout/vocabulary.ts";
import { StackedBar } from "../design/bars.tsx";
import { Icon } from "../design/icon.tsx";
import { CountLink } from "../design/records.tsx";
import { formatCount, plainText } from "../format/format.ts";
import {
  barStatuses,
  configOf,
  filterWords,
  rolloutStateShapes,
  stateWords,
  statusWords,
  targetsPath,
} from "./rollout-view.ts";
import "./rollouts.css";

/** How many targets have each status. */
type TargetTotals = Readonly<Record<TargetStatus | "targets", number>>;

/** A state as shape and word. */
export const RolloutStateMark = (props: { state: RolloutState }) => (
  <span class="record-state" data-rollout-state={props.state}>
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

/** A count of targets as a link to exactly them. */
export const TargetFigure = (props: {
  rolloutId: string;
  counts: TargetTotals;
  figure: keyof TargetTotals;
  wave?: number;
  of: string;
}) => (
  <CountLink
    count={props.counts[props.figure]}
    href={targetsPath(props.rolloutId, {
      wave: props.wave,
      status: props.figure === "targets" ? undefined : props.figure,
    })}
    of={props.of}
  />
);

/** A figure of all targets of a rollout. */
export const RolloutFigure = (props: {
  rollout: Rollout;
  figure: keyof TargetTotals;
  of: string;
}) => (
  <TargetFigure
    rolloutId={props.rollout.id}
    counts={props.rollout}
    figure={props.figure}
    of={props.of}
  />
);

/** How many of its hosts have applied a rollout. */
export const AppliedFigures = (props: { rollout: Rollout }) => (
  <>
    <RolloutFigure rollout={props.rollout} figure="applied" of="hosts applied it" /> of{" "}
    <RolloutFigure rollout={props.rollout} figure="targets" of="hosts in all" /> applied
  </>
);

/** The config of a rollout as a link to the rollout, and its hosts; `children` is read with the link. */
export const RolloutLink = (props: { rollout: Rollout; note?: string }) => (
  <a class="record-name" href={`/rollouts/${props.rollout.id}`}>
    {configOf(props.rollout)}
    <Show when={props.note}>
      <span class="visually-hidden">{props.note}</span>
    </Show>
  </a>
);

/** The filter of a rollout. */
export const FilterOfRollout = (props: { rollout: Rollout }) => (
  <code>{plainText(filterWords(props.rollout.filter))}</code>
);
