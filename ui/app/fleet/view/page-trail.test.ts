import { describe, expect, it } from "vitest";
import { createPageTrail } from "./page-trail.ts";

describe("the page trail", () => {
  it("numbers the pages that it has seen, and returns the page before each", () => {
    const trail = createPageTrail();
    expect(trail.numberOf(undefined)).toBe(1);
    trail.record(undefined, "b");
    trail.record("b", "c");
    trail.record("c", null);
    expect([trail.numberOf("b"), trail.numberOf("c")]).toEqual([2, 3]);
    expect([trail.before("c"), trail.before("b"), trail.before(undefined)]).toEqual(["b", undefined, undefined]);
  });

  it("has no number for a page that was reached by a link", () => {
    const trail = createPageTrail();
    trail.record("x", "y");
    expect([trail.numberOf("x"), trail.numberOf("y"), trail.before("x")]).toEqual([undefined, undefined, undefined]);
    expect(trail.before("y")).toBe("x");
  });
});
