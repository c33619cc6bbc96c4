import { For, Show } from "solid-js";
import type { ExportLagView } from "../../../../proto/fleet-health/report.ts";
import { Icon } from "../../design/icon.tsx";
import { formatCountOf, formatDuration } from "../../format/format.ts";

/** An export that is less behind is at work. */
const behindSeconds = 60;

/** Says what is wrong with an export; empty for one that needs nobody. */
const wordsOf = (lag: ExportLagView): string => {
  const isBehind = lag.lag_seconds > behindSeconds;
  return [
    isBehind &&
      `${formatDuration(lag.lag_seconds)} behind, ${formatCountOf(lag.lag_envelopes, "envelope")}`,
    lag.unaccounted_envelopes &&
      `${formatCountOf(lag.unaccounted_envelopes, "envelope")} passed over`,
    isBehind && !lag.running && "no process exports",
    lag.dead_letters > 0 && formatCountOf(lag.dead_letters, "dead letter"),
    isBehind && lag.last_error,
  ]
    .filter(Boolean)
    .join(" · ");
};

/** One box with a line for each export that needs somebody; nothing without one. */
export const ExportLags = (props: { exports: readonly ExportLagView[] | undefined }) => {
  const troubled = () => props.exports?.filter(wordsOf) ?? [];
  return (
    <Show when={troubled().length > 0}>
      <div class="banner export-lags" role="status">
        <Icon name="warning" />
        <ul>
          <For each={troubled()}>
            {(lag) => (
              <li>
                <b>Export {lag.name}</b>: {wordsOf(lag)}
              </li>
            )}
          </For>
        </ul>
      </div>
    </Show>
  );
};
