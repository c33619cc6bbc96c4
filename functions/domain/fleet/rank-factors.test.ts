import fc from "fast-check";
import { expect, it } from "vitest";
import type { CountedFactor } from "#functions/store/fleet/factors.ts";
import { rankFactors } from "./find-factors.ts";

const label = (value: string, selected: number, all: number): CountedFactor => ({
  kind: "label",
  value,
  selected,
  all,
});

it("is first what nearly all of it have and few others", () => {
  const ranked = rankFactors(
    [
      label("region:fra1", 17, 37),
      label("env:prod", 18, 290),
      label("rack:7", 6, 6),
      label("team:web", 3, 60),
    ],
    { selected: 18, all: 312 },
  );
  // That 290 of 312 hosts are of production explains nothing about these 18.
  expect(ranked.map(({ value }) => value)).toEqual(["region:fra1", "rack:7"]);
  expect(ranked[0]?.expectedByChance).toBeLessThan(1e-9);
});

it("is nothing that one host has, that others have as often, and nothing without others", () => {
  const counts = [label("a:1", 1, 1), label("b:1", 5, 50)];
  expect(rankFactors(counts, { selected: 10, all: 100 })).toEqual([]);
  expect(rankFactors([label("a:1", 10, 10)], { selected: 10, all: 10 })).toEqual([]);
  expect(rankFactors([label("a:1", 0, 10)], { selected: 0, all: 10 })).toEqual([]);
});

it("says of a few hosts that it may be chance", () => {
  const [two] = rankFactors(
    [label("rack:7", 2, 30), ...Array.from({ length: 9 }, (_, n) => label(`x:${n}`, 0, 5))],
    {
      selected: 2,
      all: 300,
    },
  );
  // 30/300 × 29/299, times ten values.
  expect(two?.expectedByChance).toBeCloseTo((30 / 300) * (29 / 299) * 10, 10);
  const doubtful = Array.from({ length: 9 }, (_, n) => label(`x:${n}`, 2, 150));
  expect(
    rankFactors(doubtful, { selected: 2, all: 300 }).map(({ expectedByChance: each }) => each > 1),
  ).toEqual([true, true, true]);
});

it("has for every table the chance that counting all selections gives", () => {
  const table = fc.record({
    all: fc.integer({ min: 2, max: 11 }),
    withValue: fc.nat(11),
    selected: fc.nat(11),
  });
  fc.assert(
    fc.property(table, ({ all, withValue, selected }) => {
      fc.pre(withValue <= all && selected < all && selected > 0);
      const most = Math.min(selected, withValue);
      const [ranked] = rankFactors([label("a:1", most, withValue)], { selected, all });
      if (ranked === undefined) return;
      let hits = 0;
      let total = 0;
      for (let set = 0; set < 2 ** all; set++) {
        const members = Array.from({ length: all }, (_, host) => (set >> host) & 1);
        if (members.filter(Boolean).length !== selected) continue;
        total += 1;
        if (members.slice(0, withValue).filter(Boolean).length >= most) hits += 1;
      }
      expect(ranked.expectedByChance).toBeCloseTo(hits / total, 9);
    }),
    { numRuns: 60 },
  );
});
