import { Show } from "solid-js";
import { type Rollout, RolloutList } from "#proto/rollout/rollout.ts";
import type { TargetStatus } from "#proto/rollout/vocabulary.ts";
import { StackedBar } from "../design/bars.tsx";
import { RecordState } from "../design/icon.tsx";
import { CountLink } from "../design/record-table.tsx";
import { plainText } from "../format/format.ts";
import {
  barStatuses,
  configOf,
  filterWords,
  rolloutStateWords,
  statusWords,
  targetsPath,
} from "./rollout-view.ts";
import "./rollouts.css";
import { createReport } from "../api/live-report.tsx";
import { withQuery } from "../browser/with-query.ts";
import { List, Loaded } from "../design/report-parts.tsx";
import { Time } from "../shell/page.tsx";

/** How many targets have each status. */
type TargetTotals = Readonly<Record<TargetStatus | "targets", number>>;

/** Targets by status as a bar. */
export const TargetBar = (props: { counts: TargetTotals }) => (
  <StackedBar
    parts={barStatuses}
    counts={props.counts}
    total={props.counts.targets}
    wordsOf={statusWords}
  />
);

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
  <a class="record-name" href={`/changes/rollouts/${props.rollout.id}`}>
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

/** The newest rollouts of a config, or that have a host as a target, each as a link, and a link to all of them. */
export const RolloutsOf = (props: {
  of: "config_id" | "identity_id";
  id: string;
  /** Completes "All rollouts of …": `this config`. */
  what: string;
  /** Said without any. */
  none: string;
}) => {
  const query = () => ({ [props.of]: props.id });
  const report = createReport({
    schema: RolloutList,
    path: () => withQuery("/api/core/collector/rollouts", { ...query(), limit: 5 }),
    intervalMs: 30_000,
  });
  return (
    <Loaded report={report} what="rollouts">
      {(known) => (
        <>
          <List class="rollouts-of stack gap-3" of={known().items} none={props.none}>
            {(rollout) => (
              <>
                <RecordState of={rolloutStateWords[rollout.state]} />
                <span>
                  <RolloutLink rollout={rollout} note={`, started ${rollout.created_at}`} /> to{" "}
                  <FilterOfRollout rollout={rollout} />: <AppliedFigures rollout={rollout} />
                  <span class="second-line">
                    <Time at={rollout.created_at} /> by {plainText(rollout.created_by_name)}
                  </span>
                </span>
              </>
            )}
          </List>
          <Show when={known().next_cursor !== null}>
            <a href={withQuery("/changes/rollouts", query())}>All rollouts of {props.what}</a>
          </Show>
        </>
      )}
    </Loaded>
  );
};
