import { expect, it } from "vitest";
import { isSlow } from "../support/is-slow.ts";
import { accountLaws } from "./account-laws.ts";
import { plants } from "./plants.ts";
import { simulate } from "./simulate.ts";

/** Seconds where nothing else runs. */
const seedsMs = 600_000;
const seedsOfTest = isSlow ? 15 : 5;
const seedsOfSearch = 60;

it(
  "breaks no law, whatever a seed does to hosts, cores and JetStream",
  async () => {
    for (let seed = 1; seed <= seedsOfTest; seed++) {
      const { breaches, stored } = await simulate({ seed, isStreamed: true });
      expect({ seed, breaches }).toEqual({ seed, breaches: [] });
      expect(stored).toBeGreaterThan(0);
    }
  },
  seedsMs,
);

it("finds that the stream stores whatever it is sent", async () => {
  const plant = plants["the stream stores whatever it is sent"];
  const found = [];
  for (let seed = 1; seed <= seedsOfSearch && found.length === 0; seed++)
    found.push(...(await simulate({ seed, isStreamed: true }, plant)).breaches);
  expect(found).not.toEqual([]);
});

it("finds that an hour stays complete of which its stream has lost what was settled", async () => {
  const plant = plants["what a stream has lost is not taken off accounts"];
  const lawsOf = async (seed: number) =>
    (await simulate({ seed, isStreamed: true }, plant)).breaches.map(({ law }) => law);
  let seed = 1;
  let laws = await lawsOf(1);
  while (seed < seedsOfSearch && !laws.includes(accountLaws.named)) laws = await lawsOf(++seed);
  expect(laws).toContain(accountLaws.named);
  expect((await simulate({ seed, isStreamed: true })).breaches).toEqual([]);
});

it.each([
  { seed: 2098, faults: [3, 8], untilMs: 20_000, variation: 5, ahead: "the state" },
  { seed: 2215, faults: [8], untilMs: 5_000, cores: 1, ahead: "the envelopes" },
])(
  "loses nothing unreported when one stream goes back alone, and $ahead of a queue are ahead",
  async ({ ahead: _, ...course }) => {
    expect((await simulate({ ...course, isStreamed: true })).breaches).toEqual([]);
  },
);
