import { atMost } from "../support/goals.ts";
import type { OtelcolQueue } from "./otelcol.ts";
import type { PairGoal } from "./pair.ts";
import type { PairName } from "./pairs.ts";

/** What `figure` may be at most, divided by that of a peer. */
const beside = (value: number, peer: string, figure: string): PairGoal => ({
  ...atMost(value, "×", `CPU by that of ${peer}`),
  peer,
  figure,
});

/** The names of otelcol's sides. */
export const otelcolNames: Readonly<Record<OtelcolQueue, string>> = {
  "synced-file": "otelcol, file_storage with fsync",
  memory: "otelcol, batch processor",
};
const { "synced-file": synced, memory: batch } = otelcolNames;

/**
 * What a unit of work may cost us at most. Who keeps less than we do, as otelcol's batch processor, may still not cost less. A heartbeat has no
 * quotient: opamp-go neither checks a signature nor stores anything.
 */
export const peerGoals: Readonly<Record<PairName, readonly PairGoal[]>> = {
  spans: [beside(0.5, synced, "cpu_ms"), beside(1, batch, "cpu_ms")],
  lines: [beside(0.5, synced, "cpu_ms"), beside(1, batch, "cpu_ms")],
  multiline: [],
  idle: [
    beside(1, synced, "cpu_percent"),
    { ...atMost(0.2, "%", "CPU"), figure: "cpu_percent" },
    { ...atMost(64, "MB", "memory"), figure: "idle_mb" },
  ],
  certificates: [
    beside(0.35, "step-ca, PostgreSQL", "cpu_us"),
    beside(1.4, "step-ca, badger", "cpu_us"),
  ],
  heartbeats: [{ ...atMost(250, "µs", "CPU"), figure: "cpu_us" }],
  rows: [beside(0.3, "telegraf, influx listener", "cpu_us")],
};
