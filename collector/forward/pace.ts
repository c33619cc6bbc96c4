import { fullJitterMs } from "../../kit/backoff.ts";
import type { Clock } from "../../kit/clock.ts";
import type { Entropy } from "../../kit/entropy.ts";

/** How hard one forwarder presses. */
export interface Pace {
  /** How many frames may be unacknowledged: at least 1. */
  framesInFlight(): number;
  /** Core took a frame. */
  acked(): void;
  /** A stream ended with a failure; gives how long to wait before the next, in milliseconds. */
  failed(reason: string | null): number;
}

const backoff = { baseMs: 500, capMs: 30_000 };
/** So long without `overloaded`, core counts as having recovered. */
const calmMs = 60_000;

/**
 * A pace that spreads reconnects (full jitter, at most 30 s) and gives way to a core that says `overloaded`: it halves the frames in
 * flight and waits longer each time, also if a few frames were taken in between; then it grows by one frame for each round of acks.
 */
export const createPace = ({
  framesMax,
  clock,
  entropy,
}: {
  framesMax: number;
  clock: Pick<Clock, "monotonic">;
  entropy: Entropy;
}): Pace => {
  let attempt = 0;
  let overloads = 0;
  let overloadedAt = Number.NEGATIVE_INFINITY;
  let frames = framesMax;
  return {
    framesInFlight: () => Math.max(1, Math.floor(frames)),
    acked: () => {
      attempt = 0;
      frames = Math.min(framesMax, frames + 1 / frames);
      if (clock.monotonic() - overloadedAt >= calmMs) overloads = 0;
    },
    failed: (reason) => {
      if (reason === "overloaded") {
        overloads += 1;
        overloadedAt = clock.monotonic();
        frames = Math.max(1, frames / 2);
      }
      return fullJitterMs({ attempt: Math.max(attempt++, overloads), ...backoff, entropy });
    },
  };
};
