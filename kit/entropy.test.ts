import { expect, it } from "vitest";
import { type Entropy, orderedUuidv7, pooledEntropy, systemEntropy } from "./entropy.ts";

it("returns each byte of the pool once, and more bytes than the pool on request", () => {
  let next = 0;
  const counting: Entropy = { bytes: (length) => Uint8Array.from({ length }, () => next++) };
  const entropy = pooledEntropy(counting, 5);
  const taken = [2, 2, 2, 1, 9].map((length) => [...entropy.bytes(length)]);
  expect(taken).toEqual([[0, 1], [2, 3], [5, 6], [7], [10, 11, 12, 13, 14, 15, 16, 17, 18]]);
});

it("orders ids, also beyond 4,096 in one millisecond and after a small step back", () => {
  let now = 1_800_000_000_000;
  const clock = { now: () => now };
  const next = () => orderedUuidv7({ clock, entropy: systemEntropy });
  const ids = Array.from({ length: 5000 }, next);
  now += 1;
  ids.push(next());
  now -= 500;
  ids.push(next());
  expect(ids).toEqual([...ids].sort());
  expect(new Set(ids.map((id) => id.slice(14, 15)))).toEqual(new Set("7"));
  now -= 3_600_000;
  expect(next() < (ids[0] ?? "")).toBe(true);
});
