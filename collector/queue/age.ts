import { type Clock, dayMs, minuteMs } from "#kit/clock.ts";

/** The longest stop that counts. A longer one is taken for a wall clock that was or is wrong, and adds nothing. */
const unobservedMsMax = dayMs;

/** A saved reading: the queue's time, and the wall clock at the same instant. */
export interface AgeReading {
  readonly ageMs: number;
  readonly wallMs: number;
}

/**
 * Creates the queue's own clock, in milliseconds. It never goes back and never jumps: it follows the monotonic clock, and a
 * restart adds the elapsed wall time if it is within one day, and otherwise nothing. A wall clock that is wrong by years, before the
 * restart or after it, therefore expires nothing (case Q7), however short the records' age limit is. A host that was off for longer keeps
 * its records for that much longer than configured, instead of losing them at boot.
 */
export const createAgeClock = (clock: Clock, saved: AgeReading): (() => number) => {
  const origin = clock.monotonic();
  const base = ageAt(saved, clock.now());
  return () => base + Math.floor(clock.monotonic() - origin);
};

/** The file of the watermark follows each commit, and may be a moment behind the database after a power cut. */
const apartMsMax = minuteMs;

/**
 * Returns the reading of a queue's database, or that of its watermark if the database's is ahead of it, as damage can set it: only an age that
 * is too high drops records. The watermark's has a checksum.
 */
export const leastReading = (
  saved: AgeReading,
  marked: AgeReading | undefined,
  wallMs: number,
): AgeReading =>
  marked !== undefined && ageAt(saved, wallMs) - ageAt(marked, wallMs) > apartMsMax
    ? marked
    : saved;

/** Returns the queue's time at `wallMs`, for a reader that has only the saved reading. */
export const ageAt = (saved: AgeReading, wallMs: number): number => {
  const elapsedMs = wallMs - saved.wallMs;
  return saved.ageMs + (elapsedMs >= 0 && elapsedMs <= unobservedMsMax ? elapsedMs : 0);
};
