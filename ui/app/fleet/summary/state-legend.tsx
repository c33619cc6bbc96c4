import { For, Show } from "solid-js";
import type { FleetThresholdsView } from "../../../../proto/fleet-health/report.ts";
import { fleetStates } from "../../../../proto/fleet-health/vocabulary.ts";
import { Icon } from "../../icons/icon.tsx";
import { StateMark } from "../../icons/state-mark.tsx";
import { stateRules } from "./state-rules.ts";

/** What each state means, in order of precedence, with the thresholds that the report was made with. */
export const StateLegend = (props: { thresholds: FleetThresholdsView | undefined }) => (
  <>
    <button class="button button-plain" type="button" popovertarget="state-legend">
      <Icon name="info" /> What the states mean
    </button>
    <section id="state-legend" class="popover" popover="auto" aria-label="What the states mean" tabindex="0">
      <p>A collector shows the first of these that holds.</p>
      <Show when={props.thresholds}>
        {(thresholds) => (
          <>
            <ol class="rules">
              <For each={fleetStates}>
                {(state) => (
                  <li>
                    <StateMark state={state} />
                    <p>{stateRules(thresholds())[state]}</p>
                  </li>
                )}
              </For>
            </ol>
            <p>A collector sends a heartbeat every {thresholds().heartbeat_interval_seconds} s.</p>
          </>
        )}
      </Show>
    </section>
  </>
);
