import { Match, Show, Switch } from "solid-js";
import type { ReportPhase, ReportState } from "../../api/report-state.ts";
import { Icon } from "../../design/icon.tsx";
import { formatAgo, formatTimestamp } from "../../format/format.ts";

/**
 * The age of the page, with buttons to pause and to refresh. When a refresh fails this line becomes the banner that reports it; its
 * height stays, so that nothing below moves.
 */
export const Freshness = (props: {
  state: ReportState<unknown>;
  phase: ReportPhase;
  now: number;
  paused: boolean;
  onPause: () => void;
  onRefresh: () => void;
}) => (
  <div class="freshness" data-stale={props.phase === "stale" ? "" : undefined}>
    <Show when={props.phase === "stale"}>
      <Icon name="warning" />
    </Show>
    <p>
      <span role="status">
        <Switch fallback={props.phase === "loading" || props.phase === "changing" ? "Loading" : ""}>
          <Match when={props.phase === "stale"}>{props.state.problem?.message}. These rows are old. </Match>
          <Match when={props.paused}>Paused. </Match>
        </Switch>
      </span>
      <Show when={props.state.answer?.at}>
        {(at) => (
          <time datetime={new Date(at()).toISOString()} title={formatTimestamp(at())}>
            Updated {formatAgo(at(), Math.max(props.now, at()))}
          </time>
        )}
      </Show>
    </p>
    <button class="button button-icon" type="button" aria-pressed={props.paused} onClick={() => props.onPause()}>
      <Icon name={props.paused ? "play" : "pause"} />
      <span class="visually-hidden">Pause updates</span>
    </button>
    <button class="button button-icon" type="button" title="Refresh (r)" onClick={() => props.onRefresh()}>
      <Icon name="refresh" />
      <span class="visually-hidden">Refresh</span>
    </button>
  </div>
);
