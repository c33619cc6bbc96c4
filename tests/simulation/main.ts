/**
 * `bun run simulate -- [--seed 1] [--seeds 1000] [--plant NAME] [--trace]`: simulates hosts, cores and their database on a virtual clock, one
 * history for each seed, and judges what is left (docs/simulation.md). A history that breaks a law is printed with a line that runs it
 * again. Stdout ends with one JSON object; exit code 1 when a law was broken.
 */
import { parseArgs } from "node:util";
import { plants } from "./plants.ts";
import { simulate } from "./simulate.ts";

const { values } = parseArgs({
  args: process.argv.slice(2).filter((arg) => arg !== "--"),
  options: {
    seed: { type: "string", default: "1" },
    seeds: { type: "string", default: "1" },
    plant: { type: "string" },
    trace: { type: "boolean", default: false },
  },
});
const plant = values.plant === undefined ? undefined : plants[values.plant];
if (values.plant !== undefined && plant === undefined) {
  console.error(`--plant is one of these:\n${Object.keys(plants).join("\n")}`);
  process.exit(2);
}
const first = Number(values.seed);
const started = performance.now();
let [broken, acknowledged, simulatedMs, injected] = [0, 0, 0, 0];
for (let seed = first; seed < first + Number(values.seeds); seed++) {
  const outcome = await simulate({ seed, plant });
  acknowledged += outcome.acknowledged;
  simulatedMs += outcome.simulatedMs;
  injected += outcome.injected.length;
  if (values.trace) console.error(outcome.lines.join("\n"));
  if (outcome.breaches.length === 0) continue;
  broken += 1;
  const planted = values.plant === undefined ? "" : ` --plant ${JSON.stringify(values.plant)}`;
  console.error(`\nbun run simulate -- --seed ${seed}${planted} --trace   # digest ${outcome.digest}`);
  for (const { at, name } of outcome.injected) console.error(`  ${(at / 1000).toFixed(1)} s  ${name}`);
  for (const { law, detail } of outcome.breaches) console.error(`  BROKEN  ${law}: ${detail}`);
}
const seconds = (performance.now() - started) / 1000;
console.log(
  JSON.stringify({
    seeds: Number(values.seeds),
    broken,
    acknowledged,
    faults: injected,
    simulated_hours: simulatedMs / 3_600_000,
    seconds,
  }),
);
process.exitCode = broken > 0 ? 1 : 0;
