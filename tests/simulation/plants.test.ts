/** Planted faults are found by the seeds in docs/simulation-plants.md; `simulate -- --plants` tries all of them. */
import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { plants } from "./plants.ts";
import { simulate } from "./simulate.ts";

const page = readFileSync(new URL("../../docs/simulation-plants.md", import.meta.url), "utf8");
const [table = ""] = page.split("## ");
const rows = [...table.matchAll(/^\| ([^|]+?) +\| ([^|]*?) *\| (\d+) *\|$/gm)].map(
  ([, name = "", law = "", seed]) => ({
    name,
    law,
    seed: Number(seed),
  }),
);

it("lists every planted fault", () => {
  expect(rows.map(({ name }) => name).toSorted()).toEqual(Object.keys(plants).toSorted());
});

// A sample: all of them take a minute.
it.each(rows.filter((_, at) => at % 8 === 0))(
  "finds that $name, by seed $seed",
  async ({ name, law, seed }) => {
    const { breaches } = await simulate({ seed }, plants[name]);
    expect(breaches[0]?.law).toBe(law);
  },
);
