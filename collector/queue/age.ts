import type { Clock } from "../../kit/clock.ts";

/** The most that a time without a running collector can add to the age of what is queued. */
const unobservedMsMax = 86_400_000;

/** A saved reading: the queue's own time, and the wall clock at that moment. */
export interface AgeReading {
  readonly ageMs: number;
  readonly wallMs: number;
}

/**
 * The queue's own time in milliseconds. It never goes back and never jumps: while the collector runs it follows the monotonic
 * clock, and across a restart it adds what the wall clock says, from nothing to one day. A wall clock that is wrong by years
 * therefore expires nothing (case Q7); a host that was off for a month keeps its records longer than configured rather than
 * losing them at boot.
 */
export const createAgeClock = (clock: Clock, saved: AgeReading): (() => number) => {
  const origin = clock.monotonic();
  const base = ageAt(saved, clock.now());
  return () => base + Math.floor(clock.monotonic() - origin);
};

/** The queue's time at `wallMs`, as far as a reader outside the owning process can tell. */
export const ageAt = (saved: AgeReading, wallMs: number): number =>
  saved.ageMs + Math.min(Math.max(wallMs - saved.wallMs, 0), unobservedMsMax);
