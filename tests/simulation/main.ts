/**
 * `bun run simulate -- [--seed 1] [--seeds 1000] [--plant NAME] [--trace]`: simulates hosts, cores and what they store in on a
 * virtual clock, one history for each seed, and judges what is left (docs/simulation.md). A history that breaks a law is made smaller and
 * printed as a story, with the line that runs it again. `--sources` simulates the rotations of file sources instead.
 * `--plants` runs every planted fault, first with its seed in plants.json, until a seed finds it. Stdout ends with one JSON
 * object; exit code 1 when a law was broken, when a planted fault was not found, or when plants.json is out of date.
 */
import { parseArgs } from "node:util";
import type { Course } from "./plan.ts";
import foundPlants from "./plants.json" with { type: "json" };
import { plants } from "./plants.ts";
import { shrink } from "./shrink.ts";
import { simulate } from "./simulate.ts";
import { runSourcePlants, runSources } from "./sources/run-sources.ts";
import { reportOf, traceOf } from "./story.ts";

/** How a planted fault is found: the law that it breaks first, and a seed. */
interface FoundPlant {
  law: string;
  seed: number;
}

/** Finds a planted fault by the first of these seeds that breaks a law; undefined if none does. */
const searchPlant = async (
  name: string,
  seeds: Iterable<number>,
): Promise<FoundPlant | undefined> => {
  for (const seed of seeds) {
    const [breach] = (await simulate({ seed }, plants[name])).breaches;
    if (breach !== undefined) return { law: breach.law, seed };
  }
  return undefined;
};

const { values } = parseArgs({
  args: process.argv.slice(2).filter((arg) => arg !== "--"),
  options: {
    seed: { type: "string", default: "1" },
    seeds: { type: "string", default: "1" },
    plant: { type: "string" },
    plants: { type: "boolean", default: false },
    trace: { type: "boolean", default: false },
    sources: { type: "boolean", default: false },
    "keep-size": { type: "boolean", default: false },
    faults: { type: "string" },
    hosts: { type: "string" },
    cores: { type: "string" },
    until: { type: "string" },
    variation: { type: "string" },
  },
});
const plant = values.plant === undefined ? undefined : plants[values.plant];
if (values.plant !== undefined && plant === undefined && !values.plants) {
  console.error(`--plant is one of these:\n${Object.keys(plants).join("\n")}`);
  process.exit(2);
}
const numberOf = (value: string | undefined) => (value === undefined ? undefined : Number(value));
const narrowed: Omit<Course, "seed"> = {
  faults: values.faults?.split(",").flatMap((index) => (index === "none" ? [] : [Number(index)])),
  hosts: numberOf(values.hosts),
  cores: numberOf(values.cores),
  untilMs: numberOf(values.until),
  variation: numberOf(values.variation),
};

const first = Number(values.seed);
const seeds = Number(values.seeds);
const started = performance.now();
const seconds = () => Math.round(performance.now() - started) / 1000;

const runSeeds = async () => {
  const injected: Record<string, number> = {};
  let broken = 0;
  let acknowledged = 0;
  let simulatedMs = 0;
  let digest = "";
  for (let seed = first; seed < first + seeds; seed++) {
    const outcome = await simulate({ seed, ...narrowed }, plant);
    acknowledged += outcome.acknowledged;
    simulatedMs += outcome.simulatedMs;
    digest = outcome.digest;
    for (const { name } of outcome.injected) injected[name] = (injected[name] ?? 0) + 1;
    if (values.trace) console.error(traceOf(outcome.notes).join("\n"));
    if (outcome.breaches.length === 0) continue;
    broken += 1;
    if (values.trace || values["keep-size"])
      console.error(`\n${reportOf(outcome, values.plant).join("\n")}`);
    else console.error(`\n${reportOf(await shrink(outcome, plant), values.plant).join("\n")}`);
  }
  return {
    isGood: broken === 0,
    figures: {
      seeds,
      broken,
      acknowledged,
      faults: injected,
      simulated_hours: simulatedMs / 3_600_000,
      seconds: seconds(),
      // Of the last seed: equal on every machine.
      digest,
    },
  };
};

const runPlants = async () => {
  const seedsMax = values.seeds === "1" ? 1_000 : seeds;
  const names = Object.keys(plants).filter((name) => name.includes(values.plant ?? ""));
  const recorded: Partial<Record<string, FoundPlant>> = foundPlants;
  const missed: string[] = [];
  /** For plants.json. */
  const moved: Record<string, FoundPlant> = {};
  for (const name of names) {
    const known = recorded[name];
    const others = Array.from({ length: seedsMax }, (_, at) => first + at);
    const found = await searchPlant(name, known ? [known.seed, ...others] : others);
    console.error(`| ${name} | ${found?.law ?? ""} | ${found?.seed ?? `not in ${seedsMax}`} |`);
    if (found === undefined) missed.push(name);
    else if (found.seed !== known?.seed || found.law !== known.law) moved[name] = found;
  }
  return {
    isGood: missed.length === 0 && Object.keys(moved).length === 0,
    figures: { plants: names.length, missed, moved, seconds: seconds() },
  };
};

const runOfSources = () => {
  const options = { first, seeds, print: (line: string) => console.error(line) };
  return values.plants
    ? runSourcePlants({ ...options, seeds: seeds === 1 ? 300 : seeds })
    : runSources(options);
};

const runOther = () => (values.plants ? runPlants() : runSeeds());
const { isGood, figures } = await (values.sources ? runOfSources() : runOther());
console.log(JSON.stringify(figures));
process.exitCode = isGood ? 0 : 1;
