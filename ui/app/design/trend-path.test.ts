import { expect, it } from "vitest";
import { trendPath } from "./trend-path.ts";

it("draws figures from zero to the highest, with a gap where nobody counted", () => {
  expect(trendPath([0, 5, 10, null, 10, null, 2, 0])).toBe("M0 100h0L1 50L2 0M4 0h0M6 80h0L7 100");
  expect(trendPath([null, null])).toBe("");
});

it("draws few of many as a small change, and nothing that happened as a flat line", () => {
  expect(trendPath([10_000, 9990])).toBe("M0 0h0L1 1");
  expect(trendPath([3, 3])).toBe("M0 0h0L1 0");
  expect(trendPath([0, 0])).toBe("M0 100h0L1 100");
});
