import { For, Show } from "solid-js";
import type { ExportLagView, FleetHealthReport } from "#proto/fleet-health/report.ts";
import { Banner } from "#ui/app/design/report-parts.tsx";
import { formatCountOf, formatDuration } from "#ui/app/format/format.ts";
import { Outages } from "./outages.tsx";

/** An export with a smaller lag is healthy. */
const behindSeconds = 60;

/** Describes the fault of an export; "" for a healthy one. */
const wordsOf = (lag: ExportLagView) => {
  const isBehind = lag.lag_seconds > behindSeconds;
  return [
    isBehind &&
      `${formatDuration(lag.lag_seconds)} behind, ${formatCountOf(lag.lag_envelopes, "envelope")}`,
    lag.unaccounted_envelopes &&
      `${formatCountOf(lag.unaccounted_envelopes, "envelope")} passed over`,
    isBehind && !lag.running && "not running",
    lag.dead_letters > 0 && formatCountOf(lag.dead_letters, "dead letter"),
    isBehind && lag.last_error,
  ]
    .filter(Boolean)
    .join(" · ");
};

/** A box with a line for each export with a fault; nothing without one. */
const ExportLags = (props: { exports: readonly ExportLagView[] | undefined }) => {
  const troubled = () => props.exports?.filter(wordsOf) ?? [];
  return (
    <Show when={troubled().length > 0}>
      <Banner class="export-lags">
        <ul>
          <For each={troubled()}>
            {(lag) => (
              <li>
                <b>Export {lag.name}</b>: {wordsOf(lag)}
              </li>
            )}
          </For>
        </ul>
      </Banner>
    </Show>
  );
};

/** Warns that the database's clock jumped and that no stored day is dropped meanwhile; nothing otherwise. Times are in UTC. */
const RetentionPaused = (props: { pause: FleetHealthReport["retention_paused"] }) => (
  <Show when={props.pause}>
    {(pause) => (
      <Banner>
        <p>
          <b>The database's clock jumped</b> from {minute(pause().jumped_from)} to{" "}
          {minute(pause().jumped_to)}. Stored days are kept until {minute(pause().until)}. Correct
          the clock; if it is right, run <code>svc-server confirm-clock</code>.
        </p>
      </Banner>
    )}
  </Show>
);

const minute = (time: string) => `${time.slice(0, 16).replace("T", " ")} UTC`;

/** The report's notices about core itself. Loaded on demand, because there is rarely one. */
export const Notices = (props: { report: FleetHealthReport }) => (
  <div class="fleet-notices">
    <Outages outages={props.report.outages} />
    <RetentionPaused pause={props.report.retention_paused} />
    <ExportLags exports={props.report.exports} />
  </div>
);
