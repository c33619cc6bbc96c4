import type { Clock } from "../../kit/clock.ts";

/** The most that a stopped collector adds to the age of its records. */
const unobservedMsMax = 86_400_000;

/** A saved reading: the queue's time, and the wall clock at the same instant. */
export interface AgeReading {
  readonly ageMs: number;
  readonly wallMs: number;
}

/**
 * Creates the queue's own clock, in milliseconds. It never goes back and never jumps: it follows the monotonic clock, and a
 * restart adds the elapsed wall time, from 0 to one day. A wall clock that is wrong by years therefore expires nothing (case Q7). A
 * host that was off for a month keeps its records longer than configured, instead of losing them at boot.
 */
export const createAgeClock = (clock: Clock, saved: AgeReading): (() => number) => {
  const origin = clock.monotonic();
  const base = ageAt(saved, clock.now());
  return () => base + Math.floor(clock.monotonic() - origin);
};

/** Returns the queue's time at `wallMs`, for a reader that has only the saved reading. */
export const ageAt = (saved: AgeReading, wallMs: number): number =>
  saved.ageMs + Math.min(Math.max(wallMs - saved.wallMs, 0), unobservedMsMax);
