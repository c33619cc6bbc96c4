import { type JSX, Match, Show, Switch } from "solid-js";
import type { LiveReport } from "../api/create-report.ts";
import { formatDuration, formatTimestamp, type TimeZone } from "../format/format.ts";
import { Icon } from "./icon.tsx";

/** Returns why a report is old, as a sentence with a space at its end. */
export const causeOf = ({ state }: Pick<LiveReport<unknown>, "state">, paused = false): string => {
  const { problem } = state();
  if (problem) return `${problem.message}. `;
  return paused ? "Paused. " : "No answer yet. ";
};

/** Reports that a part of a page is old: why, and since when; nothing while it is not. */
export const OldNotice = (props: {
  report: LiveReport<unknown>;
  what: string;
  paused?: boolean;
}) => (
  <Show when={props.report.phase() === "stale"}>
    <p class="banner" role="status">
      <Icon name="warning" />
      <span>
        {causeOf(props.report, props.paused === true)}
        {props.what} old: updated {formatDuration(props.report.ageSeconds() ?? 0)} ago.
      </span>
    </p>
  </Show>
);

/**
 * The age of a report, with buttons to pause and to refresh. Once the report is old, whatever the cause, this line becomes the banner
 * that says so, with the cause if it is known. Its height stays, so that nothing below moves.
 */
export const Freshness = (props: {
  report: LiveReport<unknown>;
  paused: boolean;
  zone: TimeZone;
  onPause: () => void;
  onRefresh: () => void;
  /** Further controls. */
  children?: JSX.Element;
}) => {
  const { phase, ageSeconds } = props.report;
  const age = () => formatDuration(ageSeconds() ?? 0);
  return (
    <div class="freshness" data-stale={phase() === "stale" ? "" : undefined}>
      <Show when={phase() === "stale"}>
        <Icon name="warning" />
      </Show>
      <p>
        <span role="status">
          <Switch fallback={phase() === "loading" || phase() === "changing" ? "Loading" : ""}>
            <Match when={phase() === "stale"}>
              {causeOf(props.report, props.paused)}These rows are old.{" "}
            </Match>
            <Match when={props.paused}>Paused. </Match>
          </Switch>
        </span>
        <Show when={phase() !== "changing" && props.report.asOf()}>
          {(at) => (
            <time datetime={new Date(at()).toISOString()} title={formatTimestamp(at(), props.zone)}>
              {/* One text: the end of a text beside others moves with each second, which is a layout shift. */}
              {`Updated ${age()} ago`}
            </time>
          )}
        </Show>
      </p>
      <button
        class="button button-icon"
        type="button"
        aria-pressed={props.paused}
        onClick={() => props.onPause()}
      >
        <Icon name={props.paused ? "play" : "pause"} />
        <span class="visually-hidden">Pause updates</span>
      </button>
      <button
        class="button button-icon"
        type="button"
        title="Refresh (r)"
        onClick={() => props.onRefresh()}
      >
        <Icon name="refresh" />
        <span class="visually-hidden">Refresh</span>
      </button>
      {props.children}
    </div>
  );
};
