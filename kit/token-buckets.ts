/** Token buckets by key: each has at most `burst` tokens and gains `perSecond`. */
export type TokenBuckets = ReturnType<typeof createTokenBuckets>;

interface Bucket {
  tokens: number;
  /** Monotonic milliseconds. */
  filledAt: number;
}

/** Full buckets are deleted each time this many keys have been added. */
const sweepEvery = 1_000;

/** Creates the buckets, all full. A full bucket takes memory only until the next sweep. */
export const createTokenBuckets = ({
  burst,
  perSecond,
  clock,
}: {
  burst: number;
  perSecond: number;
  clock: { monotonic(): number };
}) => {
  const buckets = new Map<string, Bucket>();
  let added = 0;
  const refill = (bucket: Bucket, now: number): Bucket => {
    bucket.tokens = Math.min(burst, bucket.tokens + ((now - bucket.filledAt) / 1000) * perSecond);
    bucket.filledAt = now;
    return bucket;
  };
  const sweep = (now: number) => {
    for (const [key, bucket] of buckets)
      if (refill(bucket, now).tokens === burst) buckets.delete(key);
  };
  const tokens = (key: string) => {
    const bucket = buckets.get(key);
    return bucket === undefined ? burst : refill(bucket, clock.monotonic()).tokens;
  };
  return {
    /** Takes a token of `key`; returns false, taking nothing, when there is none. */
    take: (key: string): boolean => {
      const now = clock.monotonic();
      let bucket = buckets.get(key);
      if (bucket === undefined) {
        if (++added % sweepEvery === 0) sweep(now);
        bucket = { tokens: burst, filledAt: now };
        buckets.set(key, bucket);
      }
      if (refill(bucket, now).tokens < 1) return false;
      bucket.tokens -= 1;
      return true;
    },
    /** Returns the tokens that `key` has. */
    tokens,
    /** Returns the milliseconds after which `key` has a token. */
    waitMs: (key: string) => Math.max(0, Math.ceil(((1 - tokens(key)) / perSecond) * 1000)),
  };
};
