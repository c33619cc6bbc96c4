import { createHash } from "node:crypto";
import { places } from "#ui/app/browser/places.ts";

/** The record beside the pictures: the navigation that each of them shows. */
export const picturedPlacesPath = "docs/images/navigation.json";

/** Returns a digest of the navigation, which is at the top of every picture. */
export const placesDigest = (): string =>
  createHash("sha256").update(JSON.stringify(places)).digest("hex").slice(0, 16);

/** Returns the pictures that were not taken with the present navigation, by the record of `screenshots`, as faults. */
export const pictureFaults = (files: Iterable<string>, record: string): string[] => {
  const taken: Readonly<Record<string, string>> = JSON.parse(record);
  return Array.from(files)
    .filter((path) => /^docs\/images\/.*\.png$/.test(path))
    .filter((path) => taken[path] !== placesDigest())
    .map((path) => `${path}: shows another navigation; run \`npx -y bun@1.4.5 run screenshots\``);
};
