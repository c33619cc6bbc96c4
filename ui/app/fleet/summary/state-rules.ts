import type { FleetThresholdsView } from "../../../../proto/fleet-health/report.ts";
import type { FleetState } from "../../../../proto/fleet-health/vocabulary.ts";
import { formatSpan } from "../../format/time.ts";

/** When each state holds, in words, with this deployment's thresholds (contract, section 6). */
export const stateRules = (thresholds: FleetThresholdsView): Record<FleetState, string> => {
  const staleAfter = formatSpan(thresholds.stale_after_seconds);
  const enrolling = formatSpan(thresholds.enrolling_seconds);
  const fraction = `${Math.round(thresholds.cert_expiring_fraction * 100)} %`;
  const { min_version: versionMin } = thresholds;
  return {
    revoked: "The identity is revoked, or the certificate last used is and no other is active.",
    enrolling: `No heartbeat and no envelope yet, enrolled less than ${enrolling} ago.`,
    renewal_failed: "The certificate expired without a successor, or the collector says that renewal failed.",
    stale: `No heartbeat for more than ${staleAfter}, or none at all ${enrolling} after enrollment.`,
    cert_expiring: `Less than ${fraction} of the certificate's lifetime is left, and there is no successor.`,
    config_invalid: "The collector says that its config is invalid; it runs on the one before.",
    unsupported_version: `The version is not SemVer${versionMin === null ? "" : `, or below ${versionMin}`}.`,
    queue_at_risk: "The collector says that its queue is at risk, or has dropped records since the heartbeat before.",
    healthy: "None of the above.",
  };
};
