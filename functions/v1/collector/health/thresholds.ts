import type { FleetThresholdsView } from "../../../../proto/fleet-health/report.ts";
import type { FleetThresholds } from "../../../store/fleet-thresholds.ts";

/** The view of thresholds. */
export const thresholdsView = (thresholds: FleetThresholds): FleetThresholdsView => ({
  heartbeat_interval_seconds: thresholds.heartbeatIntervalSeconds,
  stale_after_seconds: thresholds.staleAfterSeconds,
  enrolling_seconds: thresholds.enrollingSeconds,
  cert_expiring_fraction: thresholds.certExpiringFraction,
  min_version: thresholds.versionMin,
});
