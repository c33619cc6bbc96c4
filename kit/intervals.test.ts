import { expect, it } from "vitest";
import { differenceOfMeans, differenceOfShares } from "./intervals.ts";

it("gives the intervals of Newcombe's own examples", () => {
  // Newcombe 1998, table II, method 10.
  const rounded = (a: [number, number], b: [number, number]) => {
    const { low, high } = differenceOfShares(
      { count: a[0], of: a[1] },
      { count: b[0], of: b[1] },
      0.95,
    );
    return [low.toFixed(4), high.toFixed(4)];
  };
  expect(rounded([56, 70], [48, 80])).toEqual(["0.0524", "0.3339"]);
  expect(rounded([9, 10], [3, 10])).toEqual(["0.1705", "0.8090"]);
  expect(rounded([10, 10], [0, 20])).toEqual(["0.6791", "1.0000"]);
  expect(rounded([5, 56], [0, 29])).toEqual(["-0.0381", "0.1926"]);
});

it("gives Welch's interval, wide for few values and none for values that do not vary", () => {
  // Of equal variances: Student's 97.5 % quantiles of tables, 2.228139 for 10 degrees of freedom and 2.306004 for 8.
  const six = differenceOfMeans([1, 2, 3, 4, 5, 6], [11, 12, 13, 14, 15, 16], 0.95);
  expect([six.value, (six.low + six.high) / 2]).toEqual([-10, expect.closeTo(-10, 9)]);
  expect((six.high - six.low) / 2).toBeCloseTo(2.228139 * Math.sqrt((2 * 3.5) / 6), 3);
  const five = differenceOfMeans([1, 2, 3, 4, 5], [1, 2, 3, 4, 5], 0.95);
  expect(five.high).toBeCloseTo(2.306004 * Math.sqrt((2 * 2.5) / 5), 3);
  expect(differenceOfMeans([3, 3], [1, 1], 0.99)).toEqual({ value: 2, low: 2, high: 2 });
});
