import { describe, expect, it } from "vitest";
import { createTurns } from "./ingest-streams.ts";

describe("turns of sessions", () => {
  const setOf = (count: number) => new Map(Array.from({ length: count }, (_, index) => [index, true]));

  it.each([0, 1, 7, 30, 100])("divide %i items evenly over the parts of a pass, each item once", (count) => {
    const next = createTurns(setOf(count), 30);
    for (let pass = 0; pass < 2; pass++) {
      const parts = Array.from({ length: 30 }, next);
      expect(Math.max(...parts.map(({ length }) => length))).toBe(Math.ceil(count / 30));
      expect(parts.flat()).toEqual([...setOf(count).keys()]);
    }
  });

  it("contain every item that stays while others come and go", () => {
    const items = setOf(60);
    const next = createTurns(items, 30);
    const parts = Array.from({ length: 30 }, (_, part) => {
      items.delete(part);
      items.set(100 + part, true);
      items.set(200 + part, true);
      return next();
    }).flat();
    expect(new Set(parts).size).toBe(parts.length);
    expect(parts).toEqual(expect.arrayContaining(Array.from({ length: 30 }, (_, index) => 30 + index)));
  });
});
