import { describe, expect, it } from "vitest";
import { createBufferPool } from "./buffer-pool.ts";

describe("buffer pool", () => {
  it("lends a buffer again only once it was given back, once, also by a part of it", () => {
    const pool = createBufferPool(1024 * 1024);
    const first = pool.take(100_000);
    const second = pool.take(100_000);
    expect(second.buffer).not.toBe(first.buffer);
    pool.give(first.subarray(5, 90));
    pool.give(first);
    expect(pool.take(100_000).buffer).toBe(first.buffer);
    expect(pool.take(100_000).buffer).not.toBe(first.buffer);
  });

  it("gives at least what was asked for, and at most a quarter more", () => {
    const pool = createBufferPool(0);
    for (const bytes of [0, 1, 8192, 8193, 10_240, 10_241, 65_536, 65_537, 4_194_320, 30_000_001]) {
      const { length } = pool.take(bytes);
      expect(length).toBeGreaterThanOrEqual(bytes);
      expect(length).toBeLessThanOrEqual(bytes * 1.25);
    }
  });

  it("keeps neither what it did not lend, nor small ones, nor more than it may", () => {
    const pool = createBufferPool(150_000);
    const foreign = new Uint8Array(100_000);
    const small = pool.take(100);
    pool.give(foreign);
    pool.give(small);
    expect(pool.take(100).buffer === small.buffer && pool.take(100).byteOffset === small.byteOffset).toBe(false);
    expect(pool.take(100_000).buffer).not.toBe(foreign.buffer);
    const [one, other] = [pool.take(100_000), pool.take(100_000)];
    pool.give(one);
    pool.give(other);
    expect(pool.take(100_000).buffer).toBe(one.buffer);
    expect(pool.take(100_000).buffer).not.toBe(other.buffer);
  });
});
