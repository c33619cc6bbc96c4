import { fullJitterMs } from "../../kit/backoff.ts";
import type { Clock } from "../../kit/clock.ts";
import { type Entropy, fraction } from "../../kit/entropy.ts";

/** Limits the frames in flight of one forwarder, and how often it reconnects. */
export interface RateLimiter {
  /** Returns how many frames may be unacknowledged: at least 1. */
  framesInFlight(): number;
  /** Core acknowledged a frame. */
  acknowledged(): void;
  /** A stream failed; returns how long to wait before the next, in milliseconds: at least what core says, of which five minutes count. */
  failed(reason: string | null, retryAfterMs?: number): number;
}

/** A host that has sent its budget tries again after this time at most, and half of it at least. */
const budgetPauseMsMax = 60_000;
const backoff = { baseMs: 500, capMs: 30_000 };
const retryAfterMsMax = 300_000;
/** After this long without `overloaded`, core counts as recovered. */
const recoveredAfterMs = 60_000;

/**
 * Makes a limiter with additive increase and multiplicative decrease (AIMD): at `overloaded` it halves the frames in flight, and they
 * grow by one for each round of acks. Reconnects back off with full jitter, at most 30 s; repeated `overloaded` backs off further
 * each time, also if a few frames were accepted in between. `budget_exceeded` has a pause of its own.
 */
export const createRateLimiter = ({
  framesMax,
  clock,
  entropy,
}: {
  framesMax: number;
  clock: Pick<Clock, "monotonic">;
  entropy: Entropy;
}): RateLimiter => {
  let attempt = 0;
  let overloads = 0;
  let overloadedAt = Number.NEGATIVE_INFINITY;
  let frames = framesMax;
  return {
    framesInFlight: () => Math.max(1, Math.floor(frames)),
    acknowledged: () => {
      attempt = 0;
      frames = Math.min(framesMax, frames + 1 / frames);
      if (clock.monotonic() - overloadedAt >= recoveredAfterMs) overloads = 0;
    },
    failed: (reason, retryAfterMs = 0) => {
      // It knows when its hour ends no better than core does; and its budget may be raised before.
      if (reason === "budget_exceeded")
        return Math.floor(((1 + fraction(entropy)) / 2) * budgetPauseMsMax);
      if (reason === "overloaded") {
        overloads += 1;
        overloadedAt = clock.monotonic();
        frames = Math.max(1, frames / 2);
      }
      const jitterMs = fullJitterMs({
        attempt: Math.max(attempt++, overloads),
        ...backoff,
        entropy,
      });
      return Math.max(jitterMs, Math.min(retryAfterMs, retryAfterMsMax));
    },
  };
};
