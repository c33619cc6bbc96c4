import { For } from "solid-js";
import type { FleetThresholdsView } from "#proto/fleet-health/report.ts";
import { fleetStates } from "#proto/fleet-health/vocabulary.ts";
import { StateMark } from "#ui/app/design/icon.tsx";
import { stateRules } from "./state-rules.ts";

/** The rule of each state in order of precedence, and how the two counts over the table overlap. */
export const StateRuleList = (props: { thresholds: FleetThresholdsView }) => (
  <>
    <p>A host is in the first of these states that applies.</p>
    <ol class="rules">
      <For each={fleetStates}>
        {(state) => (
          <li>
            <StateMark state={state} />
            <p>{stateRules(props.thresholds)[state]}</p>
          </li>
        )}
      </For>
    </ol>
    <p>
      <strong>Needs attention</strong> is not a state. It counts hosts in the six states from
      renewal failed to queue at risk, and the healthy hosts that stopped forwarding or never did.
    </p>
    <p>A collector sends a heartbeat every {props.thresholds.heartbeat_interval_seconds} s.</p>
  </>
);
