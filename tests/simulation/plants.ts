/** The planted faults: mistakes that the oracle has to find, each at a seam of the product, in a file that is named as the mistake. */
import { readdirSync } from "node:fs";
import type { Plant } from "./plant.ts";

const folder = new URL("plants/", import.meta.url);

const load = async (file: string): Promise<[string, Plant]> => [
  file.replace(".ts", "").replaceAll("-", " "),
  (await import(new URL(file, folder).href)).default,
];

/** The mistakes by name. */
export const plants: Readonly<Record<string, Plant>> = Object.fromEntries(
  await Promise.all(readdirSync(folder).toSorted().map(load)),
);
