import type { FleetThresholdsView } from "#proto/fleet-health/report.ts";
import type { FleetState } from "#proto/fleet-health/vocabulary.ts";
import { formatDuration } from "#ui/app/format/format.ts";

/** Returns when each state applies, with the thresholds of this deployment (docs/fleet-health.md). */
export const stateRules = (thresholds: FleetThresholdsView): Record<FleetState, string> => {
  const staleAfter = formatDuration(thresholds.stale_after_seconds);
  const enrolling = formatDuration(thresholds.enrolling_seconds);
  const fraction = `${Math.round(thresholds.cert_expiring_fraction * 100)} %`;
  const { min_version: versionMin } = thresholds;
  return {
    revoked:
      "The identity is revoked, or its last used certificate is revoked and no other is active.",
    enrolling: `No heartbeat and no envelope yet; enrolled less than ${enrolling} ago.`,
    renewal_failed:
      "The certificate expired without a successor, or the collector reports that renewal failed.",
    stale: `No heartbeat for more than ${staleAfter}, or none at all ${enrolling} after enrollment.`,
    cert_expiring: `Less than ${fraction} of the certificate's lifetime is left, and there is no successor.`,
    config_invalid: "The collector reports an invalid config; it runs the one before.",
    unsupported_version: `The version is not SemVer${versionMin === null ? "" : `, or below ${versionMin}`}.`,
    queue_at_risk:
      "The collector reports a queue at risk, or has dropped records since the previous heartbeat.",
    component_unhealthy: "An agent that speaks OpAMP reports an unhealthy component.",
    healthy: "None of the above.",
  };
};
