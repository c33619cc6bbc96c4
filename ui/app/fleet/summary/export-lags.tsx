import { For } from "solid-js";
import type { ExportLagView } from "../../../../proto/fleet-health/report.ts";
import { formatCountOf, formatDuration } from "../../format/format.ts";

/** An export that is less behind is at work. */
const behindSeconds = 60;

const wordsOf = (lag: ExportLagView): string[] => [
  ...(lag.lag_seconds > behindSeconds
    ? [`${formatDuration(lag.lag_seconds)} behind, ${formatCountOf(lag.lag_envelopes, "envelope")}`]
    : []),
  ...(lag.lag_seconds > behindSeconds && !lag.running ? ["not running"] : []),
  ...(lag.dead_letters > 0 ? [formatCountOf(lag.dead_letters, "dead letter")] : []),
];

/** A line for each export that needs somebody; nothing for the others. */
export const ExportLags = (props: { exports: readonly ExportLagView[] | undefined }) => (
  <For each={props.exports?.filter((lag) => wordsOf(lag).length > 0)}>
    {(lag) => (
      <p class="banner" role="status">
        Export {lag.name}: {wordsOf(lag).join(", ")}
      </p>
    )}
  </For>
);
