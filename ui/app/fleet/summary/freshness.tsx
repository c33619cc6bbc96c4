import { Match, Show, Switch } from "solid-js";
import { formatAgo, formatMoment } from "../../format/time.ts";
import { Icon } from "../../icons/icon.tsx";
import type { ReportPhase, ReportState } from "../../live/report-state.ts";

/**
 * How old the page is, and the ways to hold it or to renew it. When it could not be renewed this line is the banner that says so; it
 * keeps its height, so that nothing below moves.
 */
export const Freshness = (props: {
  state: ReportState<unknown>;
  phase: ReportPhase;
  now: number;
  paused: boolean;
  onPause: () => void;
  onRefresh: () => void;
}) => {
  const at = () => props.state.answer?.at;
  return (
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
        <Show when={at()}>
          {(moment) => (
            <time datetime={new Date(moment()).toISOString()} title={formatMoment(moment())}>
              Updated {formatAgo(moment(), Math.max(props.now, moment()))}
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
};
