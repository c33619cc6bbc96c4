import { BoundedMap } from "../../kit/bounded-map.ts";
import type { Clock } from "../../kit/clock.ts";

/** Takes one request of `key`: null when it may go on, else the seconds after which it may come again. */
export type RateLimit = (key: string) => number | null;

/**
 * A token bucket for each key: `burst` requests at once, then `perSecond`. Of the keys beyond `keysMax` the one not seen for the
 * longest time starts anew.
 */
export const createRateLimit = ({
  clock,
  perSecond,
  burst,
  keysMax,
}: {
  clock: Pick<Clock, "monotonic">;
  perSecond: number;
  burst: number;
  keysMax: number;
}): RateLimit => {
  const buckets = new BoundedMap<string, { tokens: number; at: number }>(keysMax);
  return (key) => {
    const now = clock.monotonic();
    const bucket = buckets.get(key) ?? { tokens: burst, at: now };
    const tokens = Math.min(burst, bucket.tokens + ((now - bucket.at) / 1000) * perSecond);
    const admitted = tokens >= 1;
    buckets.set(key, { tokens: admitted ? tokens - 1 : tokens, at: now });
    return admitted ? null : (1 - tokens) / perSecond;
  };
};
