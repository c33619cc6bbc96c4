/**
 * `bun run bench <name> [-- options]`: measures one performance goal against a floor of the same run. Ends with one JSON object; exit
 * code 0 if the goal is met, 1 if not, 2 for an unknown bench.
 */
import { cpus, totalmem } from "node:os";
import type { Bench } from "./support/bench.ts";

/** Loaded on use: a bench's imports take memory and time. */
const benches: Readonly<Record<string, () => Promise<Bench>>> = {
  assigned: async () => (await import("./management/assigned.ts")).assignedBench,
  collector: async () => (await import("./peers/collector.ts")).collectorBench,
  enroll: async () => (await import("./management/enroll.ts")).enrollBench,
  export: async () => (await import("./export/export.ts")).exportBench,
  health: async () => (await import("./fleet/health.ts")).healthBench,
  heartbeat: async () => (await import("./management/heartbeat.ts")).heartbeatBench,
  ingest: async () => (await import("./ingest/ingest.ts")).ingestBench,
  opamp: async () => (await import("./management/opamp.ts")).opampBench,
  peers: async () => (await import("./peers/peers.ts")).peersBench,
  ratchet: async () => (await import("./ratchet/ratchet.ts")).ratchetBench,
  rotations: async () => (await import("./rotations/rotations.ts")).rotationsBench,
  start: async () => (await import("./start.ts")).startBench,
  ui: async () => (await import("./ui/ui.ts")).uiBench,
};

const [name = "", ...args] = process.argv.slice(2).filter((arg) => arg !== "--");
const load = Object.hasOwn(benches, name) ? benches[name] : undefined;
if (load === undefined) {
  console.error(`usage: bun run bench ${Object.keys(benches).join("|")}`);
  process.exitCode = 2;
} else {
  const { figure, unit, floor, ratio, goal, ok, goals, ...rest } = await (await load())(args);
  const machine = {
    cpu: cpus()[0]?.model ?? "unknown",
    cores: cpus().length,
    memoryMb: Math.round(totalmem() / 1024 / 1024),
    node: process.version,
  };
  const details = { goals, ...rest.details };
  console.log(JSON.stringify({ name, figure, unit, floor, ratio, goal, ok, details, machine }));
  process.exitCode = ok ? 0 : 1;
}
