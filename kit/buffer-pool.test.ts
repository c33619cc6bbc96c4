import { expect, it } from "vitest";
import { createBufferPool } from "./buffer-pool.ts";

it("reuses a buffer once per release, also when a part of it is released", () => {
  const pool = createBufferPool(1024 * 1024);
  const first = pool.acquire(100_000);
  const second = pool.acquire(100_000);
  expect(second.buffer).not.toBe(first.buffer);
  pool.release(first.subarray(5, 90));
  pool.release(first);
  expect(pool.acquire(100_000).buffer).toBe(first.buffer);
  expect(pool.acquire(100_000).buffer).not.toBe(first.buffer);
});

it("returns at least what was requested, and at most a quarter more", () => {
  const pool = createBufferPool(0);
  for (const bytes of [0, 1, 8192, 8193, 10_240, 10_241, 65_536, 65_537, 4_194_320, 30_000_001]) {
    const { length } = pool.acquire(bytes);
    expect(length).toBeGreaterThanOrEqual(bytes);
    expect(length).toBeLessThanOrEqual(bytes * 1.25);
  }
});

it("keeps neither foreign buffers, nor small ones, nor more than its limit", () => {
  const pool = createBufferPool(150_000);
  const foreign = new Uint8Array(100_000);
  const small = pool.acquire(100);
  pool.release(foreign);
  pool.release(small);
  expect(
    pool.acquire(100).buffer === small.buffer && pool.acquire(100).byteOffset === small.byteOffset,
  ).toBe(false);
  expect(pool.acquire(100_000).buffer).not.toBe(foreign.buffer);
  const one = pool.acquire(100_000);
  const other = pool.acquire(100_000);
  pool.release(one);
  pool.release(other);
  expect(pool.acquire(100_000).buffer).toBe(one.buffer);
  expect(pool.acquire(100_000).buffer).not.toBe(other.buffer);
});
