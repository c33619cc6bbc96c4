/**
 * Preloaded into a measured program (`NODE_OPTIONS=--import=…`): SIGUSR2 lets it collect its garbage, and write what it uses then to
 * `SVC_BENCH_MEMORY`.pid, as JSON. Pages that V8 keeps for objects to come do not count: their number depends on when it last collected.
 */
import { renameSync, writeFileSync } from "node:fs";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import { collectGarbage } from "./bench.ts";

/** The delay of the event loop is since the report before. */
export interface ProbeReport {
  usedBytes: number;
  loopP99Ms: number;
  loopMaxMs: number;
}

const resolutionMs = 20;
const delays = monitorEventLoopDelay({ resolution: resolutionMs });
delays.enable();
const milliseconds = (nanoseconds: number) =>
  Math.max(0, Math.round(nanoseconds / 1e5) / 10 - resolutionMs);

const file = `${process.env.SVC_BENCH_MEMORY}.${process.pid}`;
const write = async () => {
  const loop = {
    loopP99Ms: milliseconds(delays.percentile(99)),
    loopMaxMs: milliseconds(delays.max),
  };
  for (let round = 0; round < 3; round++) {
    collectGarbage();
    // Native memory of what was collected is freed after it.
    await sleep(50);
  }
  const { rss, heapTotal, heapUsed } = process.memoryUsage();
  const report: ProbeReport = { usedBytes: rss - heapTotal + heapUsed, ...loop };
  writeFileSync(`${file}.new`, JSON.stringify(report));
  renameSync(`${file}.new`, file);
  delays.reset();
};
process.on("SIGUSR2", () => void write());
