import type { PairGoal } from "./pair.ts";
import type { PairName } from "./pairs.ts";

const synced = "otelcol, file_storage with fsync";
const batch = "otelcol, batch processor";

/**
 * What a unit of work may cost us at most. Who keeps less than we do, as otelcol's batch processor, may still not cost less. A heartbeat has no
 * quotient: opamp-go neither checks a signature nor stores anything.
 */
export const peerGoals: Readonly<Record<PairName, readonly PairGoal[]>> = {
  spans: [
    { peer: synced, figure: "cpu_ms", atMost: 0.5 },
    { peer: batch, figure: "cpu_ms", atMost: 1 },
  ],
  lines: [
    { peer: synced, figure: "cpu_ms", atMost: 0.5 },
    { peer: batch, figure: "cpu_ms", atMost: 1 },
  ],
  idle: [
    { peer: synced, figure: "cpu_percent", atMost: 1 },
    { figure: "cpu_percent", atMost: 0.2 },
    { figure: "idle_mb", atMost: 64 },
  ],
  certificates: [
    { peer: "step-ca, PostgreSQL", figure: "cpu_us", atMost: 0.35 },
    { peer: "step-ca, badger", figure: "cpu_us", atMost: 1.4 },
  ],
  heartbeats: [{ figure: "cpu_us", atMost: 250 }],
  rows: [{ peer: "telegraf, influx listener", figure: "cpu_us", atMost: 0.3 }],
};
