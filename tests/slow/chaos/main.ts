/**
 * `bun run chaos -- [--minutes 5] [--seed 1] [--fault <part of a name>]`: a real core, PostgreSQL behind a proxy, a collector and four
 * senders, on loopback. Injects faults in an order that the seed draws; `--minutes 0` injects each once. In the end everything that was
 * acknowledged is stored once and in order. Progress and a table go to stderr; stdout ends with one JSON object. Exit code 1 when
 * something was lost, doubled or disordered, or a goal for recovery, pauses or memory was missed.
 */
import { parseArgs } from "node:util";
import { bundlePrograms, programPaths } from "../../../scripts/bundle/bundle-programs.ts";
import { recoveryOf, runChaos } from "./chaos.ts";
import { faults } from "./faults.ts";

const { values } = parseArgs({
  args: process.argv.slice(2).filter((arg) => arg !== "--"),
  options: {
    minutes: { type: "string", default: "5" },
    seed: { type: "string", default: "1" },
    fault: { type: "string", default: "" },
  },
});
const names = Object.keys(faults).filter((name) => name.includes(values.fault));
if (names.length === 0) {
  console.error(`no such fault; these exist:\n${Object.keys(faults).join("\n")}`);
  process.exit(2);
}
await bundlePrograms(undefined, ["svc-server", "svc-collector"]);
const report = await runChaos({
  seed: Number(values.seed),
  minutes: Number(values.minutes),
  names,
  program: programPaths["svc-server"],
  progress: (line) => console.error(line),
});
const cell = (value: unknown, width: number) => String(value).padStart(width);
console.error(
  `\n${"fault".padEnd(40)}${["times", "p50 ms", "max ms", "pause ms"].map((name) => cell(name, 10)).join("")}`,
);
for (const name of names) {
  const { count, p50, max } = recoveryOf(report.faults, name);
  const pauses = report.faults.filter(({ fault }) => fault === name).map((fault) => fault.pause_ms);
  const cells = [count, p50, max, Math.max(0, ...pauses)];
  if (count > 0) console.error(name.padEnd(40) + cells.map((value) => cell(value, 10)).join(""));
}
console.error(`\ncore's peak memory: ${report.core_peak_mb} MB`);
for (const goal of report.broken) console.error(`BROKEN  ${goal}`);
console.log(JSON.stringify(report));
process.exitCode = report.ok ? 0 : 1;
