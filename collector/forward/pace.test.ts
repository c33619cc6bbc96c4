import fc from "fast-check";
import { expect, it } from "vitest";
import { createTestClock } from "../../tests/fakes/clock.ts";
import { createSeededEntropy } from "../../tests/fakes/entropy.ts";
import { createPace } from "./pace.ts";

it("1,000 collectors come back spread out after an outage of any length from a minute on", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 1_000_000 }),
      fc.integer({ min: 60_000, max: 3_600_000 }),
      (seed, outageMs) => {
        const arrivals = Array.from({ length: 1000 }, (_, host) => {
          const pace = createPace({
            framesMax: 8,
            clock: createTestClock(),
            entropy: createSeededEntropy(seed * 1000 + host),
          });
          pace.acked();
          let at = 0;
          while (at < outageMs) at += pace.failed(null);
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

it("overloaded: gives way by half each time, waits longer though frames are taken in between, and recovers", async () => {
  const clock = createTestClock();
  // The longest pause there can be.
  const entropy = { bytes: (length: number) => new Uint8Array(length).fill(255) };
  const pace = createPace({ framesMax: 8, clock, entropy });
  const pauses: number[] = [];
  const frames: number[] = [];
  for (let round = 0; round < 5; round++) {
    pauses.push(pace.failed("overloaded"));
    frames.push(pace.framesInFlight());
    pace.acked();
  }
  expect(frames).toEqual([4, 2, 1, 1, 1]);
  expect(pauses).toEqual(pauses.toSorted((a, b) => a - b));
  expect(pauses.at(-1)).toBeGreaterThan(10_000);
  for (let ack = 0; ack < 40; ack++) pace.acked();
  expect(pace.framesInFlight()).toBe(8);
  await clock.advance(60_000);
  pace.acked();
  expect(pace.failed(null)).toBeLessThanOrEqual(500);
});
