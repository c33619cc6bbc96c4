import { expect, it } from "vitest";
import { freeBytes } from "./free-bytes.ts";

it("frees bytes so that a later copy throws, and spares a buffer that others use too", () => {
  const own = new Uint8Array(10);
  freeBytes(own);
  expect(() => new Uint8Array(10).set(own)).toThrow(TypeError);

  const shared = new Uint8Array(10).fill(1);
  const part = shared.subarray(2, 4);
  freeBytes(part);
  expect([shared.length, part[0]]).toEqual([10, 1]);
  freeBytes(part, { whole: true });
  expect(shared).toHaveLength(0);
  // As two records of a damaged block do.
  expect(() => freeBytes(part, { whole: true })).not.toThrow();
});
