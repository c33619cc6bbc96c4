import { type Entropy, fraction } from "./entropy.ts";

/**
 * How long to wait before attempt `attempt` + 1 (the first failure is attempt 0): a uniformly random time up to `baseMs` doubled
 * for every earlier attempt, and never above `capMs`. Full jitter: after an outage of core a fleet comes back spread out.
 */
export const fullJitterMs = (options: { attempt: number; baseMs: number; capMs: number; entropy: Entropy }): number => {
  const { attempt, baseMs, capMs, entropy } = options;
  return Math.floor(fraction(entropy) * Math.min(capMs, baseMs * 2 ** Math.min(attempt, 30)));
};
