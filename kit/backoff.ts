import { type Entropy, fraction } from "./entropy.ts";

/**
 * Returns the wait before attempt `attempt` + 1, where the first failure is attempt 0: uniformly random up to `baseMs`, doubled for every
 * earlier attempt, at most `capMs`. Full jitter spreads a fleet's retries after an outage of core.
 */
export const fullJitterMs = (options: {
  attempt: number;
  baseMs: number;
  capMs: number;
  entropy: Entropy;
}): number => {
  const { attempt, baseMs, capMs, entropy } = options;
  return Math.floor(fraction(entropy) * Math.min(capMs, baseMs * 2 ** Math.min(attempt, 30)));
};
