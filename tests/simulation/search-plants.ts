/** Runs planted faults until a seed finds them. */
import { plants } from "./plants.ts";
import { simulate } from "./simulate.ts";

/** How a planted fault was found. */
export interface FoundPlant {
  name: string;
  /** The law that it broke first. */
  law: string;
  /** How many seeds it took; undefined if none found it. */
  seeds: number | undefined;
}

/** Returns how each planted fault is found; `onFound` receives the rows of a table. */
export const searchPlants = async (options: {
  names?: readonly string[];
  first: number;
  seedsMax: number;
  onFound(row: string): void;
}) => {
  const { names = Object.keys(plants), first, seedsMax, onFound } = options;
  const found: FoundPlant[] = [];
  for (const name of names) {
    const result = await searchPlant(name, first, seedsMax);
    found.push(result);
    onFound(`| ${result.name} | ${result.law} | ${result.seeds ?? `not in ${seedsMax}`} |`);
  }
  return found;
};

const searchPlant = async (name: string, first: number, seedsMax: number): Promise<FoundPlant> => {
  for (let seed = first; seed < first + seedsMax; seed++) {
    const [breach] = (await simulate({ seed }, plants[name])).breaches;
    if (breach !== undefined) return { name, law: breach.law, seeds: seed - first + 1 };
  }
  return { name, law: "", seeds: undefined };
};
