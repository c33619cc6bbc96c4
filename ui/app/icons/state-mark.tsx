import type { FleetState } from "../../../proto/fleet-health/vocabulary.ts";
import { StateIcon } from "./icon.tsx";

/** The nine states as a person reads them. */
export const stateNames: Record<FleetState, string> = {
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

/** A state as shape and word, never colour alone. */
export const StateMark = (props: { state: FleetState }) => (
  <span class="state-mark">
    <StateIcon state={props.state} />
    {stateNames[props.state]}
  </span>
);
