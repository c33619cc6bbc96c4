import { describe, expect, it } from "vitest";
import { createPageTrail } from "./page-trail.ts";

describe("the trail of pages", () => {
  it("numbers the pages that it saw, and knows the way back", () => {
    const trail = createPageTrail();
    expect(trail.numberOf(undefined)).toBe(1);
    trail.note(undefined, "b");
    trail.note("b", "c");
    trail.note("c", null);
    expect([trail.numberOf("b"), trail.numberOf("c")]).toEqual([2, 3]);
    expect([trail.before("c"), trail.before("b"), trail.before(undefined)]).toEqual(["b", undefined, undefined]);
  });

  it("says that it does not know a page that was reached by a link", () => {
    const trail = createPageTrail();
    trail.note("x", "y");
    expect([trail.numberOf("x"), trail.numberOf("y"), trail.before("x")]).toEqual([undefined, undefined, undefined]);
    expect(trail.before("y")).toBe("x");
  });
});
