/**
 * Preloaded into an attacked program (`NODE_OPTIONS=--import=…`): writes the delay of its event loop, in milliseconds, to
 * `SVC_FLOOD_PROBE`.pid each 100 ms, as JSON. SIGUSR2 begins anew.
 */
import { renameSync, writeFileSync } from "node:fs";
import { monitorEventLoopDelay } from "node:perf_hooks";

const resolutionMs = 5;
const delays = monitorEventLoopDelay({ resolution: resolutionMs });
delays.enable();
process.on("SIGUSR2", () => delays.reset());
const milliseconds = (nanoseconds: number) =>
  Math.max(0, Math.round(nanoseconds / 1e5) / 10 - resolutionMs);
const file = process.env.SVC_FLOOD_PROBE;
const write = () => {
  if (file === undefined) return;
  const report = { p99_ms: milliseconds(delays.percentile(99)), max_ms: milliseconds(delays.max) };
  writeFileSync(`${file}.${process.pid}.new`, JSON.stringify(report));
  renameSync(`${file}.${process.pid}.new`, `${file}.${process.pid}`);
};
setInterval(write, 100).unref();
