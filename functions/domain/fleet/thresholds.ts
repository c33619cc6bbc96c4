import type { CoreConfig } from "../../config.ts";
import type { FleetThresholds } from "../../store/fleet-thresholds.ts";

const missedHeartbeatsMax = 3;

/** The thresholds of a configuration. */
export const fleetThresholds = (
  config: Pick<CoreConfig, "heartbeatIntervalSeconds" | "collectorVersionMin">,
): FleetThresholds => ({
  heartbeatIntervalSeconds: config.heartbeatIntervalSeconds,
  staleAfterSeconds: missedHeartbeatsMax * config.heartbeatIntervalSeconds,
  enrollingSeconds: 15 * 60,
  certExpiringFraction: 0.25,
  versionMin: config.collectorVersionMin,
});
