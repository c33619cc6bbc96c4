import { expect, it } from "vitest";
import { type Entropy, pooledEntropy } from "./entropy.ts";

it("returns each byte of the pool once, and more bytes than the pool on request", () => {
  let next = 0;
  const counting: Entropy = { bytes: (length) => Uint8Array.from({ length }, () => next++) };
  const entropy = pooledEntropy(counting, 5);
  const taken = [2, 2, 2, 1, 9].map((length) => [...entropy.bytes(length)]);
  expect(taken).toEqual([[0, 1], [2, 3], [5, 6], [7], [10, 11, 12, 13, 14, 15, 16, 17, 18]]);
});
