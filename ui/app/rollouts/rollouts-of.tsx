import { createMemo, For, Show } from "solid-js";
import { RolloutList } from "../../../proto/rollout/rollout.ts";
import { createReport } from "../api/live-report.tsx";
import { Loaded, OldNotice } from "../design/report-parts.tsx";
import { plainText } from "../format/format.ts";
import { Time } from "../shell/page.tsx";
import { RolloutStateMark, TargetFigure } from "./rollout-parts.tsx";
import { filterWords } from "./rollout-view.ts";
import "./rollouts.css";

const rowsMax = 5;

/** The newest rollouts of a config, or that have a host as a target, each as a link, and a link to all of them. */
export const RolloutsOf = (props: {
  of: "config_id" | "identity_id";
  id: string;
  /** Completes "All rollouts of …": `this config`. */
  what: string;
  /** Said without any. */
  none: string;
}) => {
  const query = () => new URLSearchParams({ [props.of]: props.id });
  const report = createReport({
    schema: RolloutList,
    path: createMemo(() => `/api/core/collector/rollouts?${query()}&limit=${rowsMax}`),
    intervalMs: 30_000,
  });
  const page = report.current;
  return (
    <>
      <OldNotice report={report} what="These rollouts are" />
      <Loaded report={report} what="rollouts" value={page()}>
        {(known) => (
          <Show when={known().items.length > 0} fallback={<p class="quiet">{props.none}</p>}>
            <ul class="rollouts-of">
              <For each={known().items}>
                {(rollout) => (
                  <li>
                    <RolloutStateMark state={rollout.state} />
                    <span>
                      <a class="rollout-name" href={`/rollouts/${rollout.id}`}>
                        {plainText(rollout.config.name ?? rollout.config.config_hash.slice(0, 12))}
                        <span class="visually-hidden">, started {rollout.created_at}</span>
                      </a>{" "}
                      to <code>{plainText(filterWords(rollout.filter))}</code>:{" "}
                      <TargetFigure
                        rolloutId={rollout.id}
                        counts={rollout}
                        figure="applied"
                        of="hosts applied it"
                      />{" "}
                      of{" "}
                      <TargetFigure
                        rolloutId={rollout.id}
                        counts={rollout}
                        figure="targets"
                        of="hosts in all"
                      />{" "}
                      applied
                      <span class="second-line">
                        <Time at={rollout.created_at} asOf={report.asOf()} /> by{" "}
                        {plainText(rollout.created_by_name)}
                      </span>
                    </span>
                  </li>
                )}
              </For>
            </ul>
            <Show when={known().next_cursor !== null}>
              <a href={`/rollouts?${query()}`}>All rollouts of {props.what}</a>
            </Show>
          </Show>
        )}
      </Loaded>
    </>
  );
};
