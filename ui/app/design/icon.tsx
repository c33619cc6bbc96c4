import type { FleetState } from "../../../proto/fleet-health/vocabulary.ts";
import { type ShapeName, shapes, stateShapes } from "./shapes.ts";

/** A shape 16 px wide in the colour of the text. It has no accessible name: visible text or the label of its control names it. */
export const Icon = (props: { name: ShapeName }) => (
  <svg class="icon" viewBox="0 0 16 16" aria-hidden="true">
    <path d={shapes[props.name]} fill-rule="evenodd" />
  </svg>
);

const stateNames: Record<FleetState, string> = {
  revoked: "Revoked",
  enrolling: "Enrolling",
  renewal_failed: "Renewal failed",
  stale: "Stale",
  cert_expiring: "Certificate expiring",
  config_invalid: "Config invalid",
  unsupported_version: "Unsupported version",
  queue_at_risk: "Queue at risk",
  healthy: "Healthy",
};

/** A health state as shape and word, never colour alone. */
export const StateMark = (props: { state: FleetState }) => (
  <span class="state-mark">
    <svg class="icon" data-state={props.state} viewBox="0 0 16 16" aria-hidden="true">
      <path d={stateShapes[props.state]} fill-rule="evenodd" />
    </svg>
    {stateNames[props.state]}
  </span>
);
