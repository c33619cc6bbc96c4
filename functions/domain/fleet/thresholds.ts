import type { CoreConfig } from "#functions/config/core-config.ts";
import type { FleetThresholds } from "#functions/store/fleet/conditions.ts";

const missedHeartbeatsMax = 3;
/** Heartbeats follow each other after the interval and at most a tenth of it. */
const jitterMax = 1.1;
/** A collector waits this long for core's response. */
const requestSecondsMax = 30;
/** A host that sends little may be silent for some minutes. */
const forwardingSecondsMin = 5 * 60;

/** Returns the thresholds of a configuration. */
export const fleetThresholds = (
  config: Pick<CoreConfig, "heartbeatIntervalSeconds"> &
    Partial<Pick<CoreConfig, "collectorVersionMin" | "otelcolVersionMin">>,
): FleetThresholds => ({
  heartbeatIntervalSeconds: config.heartbeatIntervalSeconds,
  staleAfterSeconds: missedHeartbeatsMax * config.heartbeatIntervalSeconds,
  forwardingSeconds: Math.max(
    forwardingSecondsMin,
    missedHeartbeatsMax * config.heartbeatIntervalSeconds,
  ),
  enrollingSeconds: 15 * 60,
  returnSeconds: Math.ceil(jitterMax * config.heartbeatIntervalSeconds) + requestSecondsMax,
  certExpiringFraction: 0.25,
  versionMin: config.collectorVersionMin ?? null,
  otelcolVersionMin: config.otelcolVersionMin ?? null,
});
