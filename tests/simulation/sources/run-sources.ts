import { simulateSources } from "./simulate-sources.ts";
import { sourcePlants } from "./source-plants.ts";

interface Seeds {
  first: number;
  seeds: number;
  print(line: string): void;
}

/** Runs histories of file sources, and prints each that breaks a law. Returns the figures, and whether none did. */
export const runSources = async ({ first, seeds, print }: Seeds) => {
  const figures = { seeds, broken: 0, written: 0, stored: 0, gaps: 0 };
  for (let seed = first; seed < first + seeds; seed++) {
    const outcome = await simulateSources(seed);
    figures.written += outcome.written;
    figures.stored += outcome.stored;
    figures.gaps += outcome.gaps;
    if (outcome.breaches.length === 0) continue;
    figures.broken += 1;
    print(`seed ${seed}: ${outcome.breaches.join("; ")}`);
    if (seeds === 1) print(outcome.story.join("\n"));
  }
  return { isGood: figures.broken === 0, figures };
};

/** Runs every planted fault until a seed finds it, and prints a row for each. */
export const runSourcePlants = async ({ first, seeds, print }: Seeds) => {
  const missed: string[] = [];
  for (const [name, plant] of Object.entries(sourcePlants)) {
    const found = await findPlant(plant, first, seeds);
    print(`| ${name} | ${found?.law ?? ""} | ${found?.seeds ?? `not in ${seeds}`} |`);
    if (found === undefined) missed.push(name);
  }
  return {
    isGood: missed.length === 0,
    figures: { plants: Object.keys(sourcePlants).length, missed },
  };
};

/** Returns the law that a planted fault broke, and after how many seeds. */
export const findPlant = async (
  plant: (typeof sourcePlants)[string] | undefined,
  first: number,
  seeds: number,
) => {
  for (let seed = first; seed < first + seeds; seed++) {
    const [law] = (await simulateSources(seed, plant)).breaches;
    if (law !== undefined) return { law: law.split(":")[0] ?? law, seeds: seed - first + 1 };
  }
  return undefined;
};
