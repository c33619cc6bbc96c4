import { expect, it } from "vitest";
import { runsOf } from "#tests/support/is-slow.ts";
import { findPlant, runSources } from "./run-sources.ts";
import { sourcePlants } from "./source-plants.ts";

it("F1, F2, F3, F8: histories of rotations lose nothing that is not told, and store nothing twice", async () => {
  const broken: string[] = [];
  await runSources({ first: 1, seeds: runsOf(25), print: (line) => broken.push(line) });
  expect(broken).toEqual([]);
});

it.each(["lines are stored twice", "gaps are not stored", "a file does not grow"])(
  "finds that %s",
  async (name) => {
    expect(await findPlant(sourcePlants[name], 1, 30)).toBeDefined();
  },
);
