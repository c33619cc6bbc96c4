import { describe, expect, it } from "vitest";
import { plants } from "./plants.ts";
import { simulate } from "./simulate.ts";

/** Runs seeds until one breaks a law; returns it, or undefined. */
const firstBroken = async (name: string, seeds: number) => {
  for (let seed = 1; seed <= seeds; seed++) {
    const { breaches } = await simulate({ seed }, plants[name]);
    if (breaches.length > 0) return { seed, breaches };
  }
  return undefined;
};

describe("a simulation", () => {
  it("breaks no law, whatever a seed does to hosts, cores and the database", async () => {
    for (let seed = 1; seed <= 10; seed++) {
      const { breaches, stored } = await simulate({ seed });
      expect({ seed, breaches }).toEqual({ seed, breaches: [] });
      expect(stored).toBeGreaterThan(0);
    }
  });

  it("gives the same history for the same seed", async () => {
    const [first, again, other] = [
      await simulate({ seed: 4 }),
      await simulate({ seed: 4 }),
      await simulate({ seed: 5 }),
    ];
    expect(again.digest).toBe(first.digest);
    expect([again.acknowledged, again.stored]).toEqual([first.acknowledged, first.stored]);
    expect(other.digest).not.toBe(first.digest);
  });

  it.each([
    "core acknowledges before it commits",
    "a lost range is not recorded",
    "a cursor does not move with its rows",
  ])("finds that %s", async (name) => {
    expect(await firstBroken(name, 4)).toBeDefined();
  });
});
