import { createMemo, For, Show } from "solid-js";
import { RolloutList } from "#proto/rollout/rollout.ts";
import { createReport } from "../api/live-report.tsx";
import { withQuery } from "../browser/with-query.ts";
import { Loaded, OldNotice } from "../design/report-parts.tsx";
import { plainText } from "../format/format.ts";
import { Time } from "../shell/page.tsx";
import {
  AppliedFigures,
  FilterOfRollout,
  RolloutLink,
  RolloutStateMark,
} from "./rollout-parts.tsx";

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
    path: createMemo(() => withQuery("/api/core/collector/rollouts", { ...query(), limit: 5 })),
    intervalMs: 30_000,
  });
  return (
    <>
      <OldNotice report={report} what="These rollouts are" />
      <Loaded report={report} what="rollouts" value={report.current()}>
        {(known) => (
          <Show when={known().items.length > 0} fallback={<p class="quiet">{props.none}</p>}>
            <ul class="rollouts-of">
              <For each={known().items}>
                {(rollout) => (
                  <li>
                    <RolloutStateMark state={rollout.state} />
                    <span>
                      <RolloutLink rollout={rollout} note={`, started ${rollout.created_at}`} /> to{" "}
                      <FilterOfRollout rollout={rollout} />: <AppliedFigures rollout={rollout} />
                      <span class="second-line">
                        <Time at={rollout.created_at} /> by {plainText(rollout.created_by_name)}
                      </span>
                    </span>
                  </li>
                )}
              </For>
            </ul>
            <Show when={known().next_cursor !== null}>
              <a href={withQuery("/rollouts", query())}>All rollouts of {props.what}</a>
            </Show>
          </Show>
        )}
      </Loaded>
    </>
  );
};
