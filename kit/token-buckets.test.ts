import { expect, it } from "vitest";
import { createTokenBuckets } from "./token-buckets.ts";

it("token buckets gives a key its burst at once, then its rate, and every key its own", () => {
  let now = 0;
  const buckets = createTokenBuckets({ burst: 3, perSecond: 2, clock: { monotonic: () => now } });
  const takeAll = (key: string) =>
    Array.from({ length: 5 }, () => buckets.take(key)).filter(Boolean).length;
  expect(takeAll("a")).toBe(3);
  expect(takeAll("b")).toBe(3);
  now += 1_000;
  expect(buckets.tokens("a")).toBe(2);
  expect(takeAll("a")).toBe(2);
  expect(buckets.waitMs("a")).toBe(500);
  now += 499;
  expect(buckets.take("a")).toBe(false);
  now += 1;
  expect([buckets.waitMs("a"), buckets.take("a")]).toEqual([0, true]);
  now += 3_600_000;
  expect(takeAll("a")).toBe(3);
  expect(buckets.tokens("unseen")).toBe(3);
});
