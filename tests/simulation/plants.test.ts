/** Planted faults are found by the seeds in plants.json, first by the law there; `simulate -- --plants` tries all of them. */
import { expect, it } from "vitest";
import found from "./plants.json" with { type: "json" };
import { plants } from "./plants.ts";
import { simulate } from "./simulate.ts";

it("lists every planted fault", () => {
  expect(Object.keys(found).toSorted()).toEqual(Object.keys(plants).toSorted());
});

// A sample: all of them take a minute.
it.each(Object.entries(found).filter((_, at) => at % 8 === 0))(
  "finds that %s",
  async (name, { law, seed }) => {
    const { breaches } = await simulate({ seed }, plants[name]);
    expect(breaches[0]?.law).toBe(law);
  },
);
