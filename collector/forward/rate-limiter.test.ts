import fc from "fast-check";
import { expect, it } from "vitest";
import { createTestClock } from "#tests/fakes/clock.ts";
import { createSeededEntropy } from "#tests/fakes/entropy.ts";
import { createRateLimiter } from "./forwarder.ts";

it("spreads the reconnects of 1,000 collectors after an outage of a minute or more", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 1_000_000 }),
      fc.integer({ min: 60_000, max: 3_600_000 }),
      (seed, outageMs) => {
        const arrivals = Array.from({ length: 1000 }, (_, host) => {
          const limiter = createRateLimiter({
            framesMax: 8,
            clock: createTestClock(),
            entropy: createSeededEntropy(seed * 1000 + host),
          });
          limiter.acknowledged();
          let at = 0;
          while (at < outageMs) at += limiter.failed(null);
          return at - outageMs;
        });
        const perSecond = new Map<number, number>();
        for (const arrival of arrivals) {
          const second = Math.floor(arrival / 1000);
          perSecond.set(second, (perSecond.get(second) ?? 0) + 1);
        }
        // Core does 1,100 full handshakes a second.
        expect(Math.max(...perSecond.values())).toBeLessThan(150);
        expect(Math.max(...arrivals)).toBeLessThanOrEqual(30_000);
      },
    ),
    { numRuns: 10 },
  );
});

it("halves the frames in flight at each overloaded, backs off further although frames are accepted in between, and recovers", async () => {
  const clock = createTestClock();
  // Jitter at its maximum.
  const entropy = { bytes: (length: number) => new Uint8Array(length).fill(255) };
  const limiter = createRateLimiter({ framesMax: 8, clock, entropy });
  const pauses: number[] = [];
  const frames: number[] = [];
  for (let round = 0; round < 5; round++) {
    pauses.push(limiter.failed("overloaded"));
    frames.push(limiter.framesInFlight());
    limiter.acknowledged();
  }
  expect(frames).toEqual([4, 2, 1, 1, 1]);
  expect(pauses).toEqual(pauses.toSorted((a, b) => a - b));
  expect(pauses.at(-1)).toBeGreaterThan(10_000);
  for (let ack = 0; ack < 40; ack++) limiter.acknowledged();
  expect(limiter.framesInFlight()).toBe(8);
  await clock.advance(60_000);
  limiter.acknowledged();
  expect(limiter.failed(null)).toBeLessThanOrEqual(500);
});

it("tries again 30 to 60 s after its host has sent its budget, and backs off no further for that", () => {
  const pausesOf = (byte: number) => {
    const entropy = { bytes: (length: number) => new Uint8Array(length).fill(byte) };
    const limiter = createRateLimiter({ framesMax: 8, clock: createTestClock(), entropy });
    const pauses = Array.from({ length: 9 }, () => limiter.failed("budget_exceeded"));
    return {
      pauses: new Set(pauses),
      next: limiter.failed(null),
      frames: limiter.framesInFlight(),
    };
  };
  expect(pausesOf(0)).toEqual({ pauses: new Set([30_000]), next: 0, frames: 8 });
  expect(pausesOf(255)).toEqual({ pauses: new Set([59_999]), next: 499, frames: 8 });
});

it("waits at least as long as core says, but no longer than five minutes for that", () => {
  const limiter = createRateLimiter({
    framesMax: 8,
    clock: createTestClock(),
    entropy: createSeededEntropy(),
  });
  expect(limiter.failed("database_unavailable", 90_000)).toBe(90_000);
  expect(limiter.failed("shutting_down", 1e12)).toBe(300_000);
});
