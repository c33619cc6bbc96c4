import { addressKey } from "../../../kit/address.ts";
import type { Clock } from "../../../kit/clock.ts";
import { createTokenBuckets, type TokenBuckets } from "../../../kit/token-buckets.ts";
import type { Handler } from "../request.ts";

/** The requests of an address: `burst` at once, then `perSecond`. */
export interface AddressLimit {
  burst: number;
  perSecond: number;
}

/** Wide, as people behind one proxy share its address: 100 devices that wait poll 20 times a second. */
export const tokenLimit: AddressLimit = { burst: 200, perSecond: 20 };
/** A person asks for a device's codes once. */
export const deviceLimit: AddressLimit = { burst: 20, perSecond: 0.5 };
/** Tokens of workloads that core did not accept. As wide: the others of an address, such as an edge's, may be valid. */
const exchangeRefusalLimit = tokenLimit;

/**
 * Limits the requests of one address, an IPv6 /64, in this process. Answers 429 `slow_down` in the form of RFC 6749 (5.2) with
 * `Retry-After`.
 */
export const limitAddress = (clock: Clock, limit: AddressLimit, handle: Handler): Handler => {
  const buckets = createTokenBuckets({ ...limit, clock });
  return async (c) => {
    const key = addressKey(c.get("remoteAddress"));
    if (buckets.take(key)) return handle(c);
    c.header("Retry-After", String(retryAfterSeconds(buckets, key, limit)));
    return c.json({ error: "slow_down", error_description: "Too many requests of this address" }, 429);
  };
};

/** Limits the refused token exchanges of one address. */
export interface ExchangeLimit {
  /** Returns the seconds after which the address may try again; null when it may now. */
  retryAfterSeconds(address: string): number | null;
  /** Counts a refusal. */
  refused(address: string): void;
}

/** Creates the limit of refused token exchanges of this process. */
export const createExchangeLimit = (clock: Clock): ExchangeLimit => {
  const buckets = createTokenBuckets({ ...exchangeRefusalLimit, clock });
  return {
    retryAfterSeconds: (address) => {
      const key = addressKey(address);
      return buckets.tokens(key) < 1 ? retryAfterSeconds(buckets, key, exchangeRefusalLimit) : null;
    },
    refused: (address) => void buckets.take(addressKey(address)),
  };
};

const retryAfterSeconds = (buckets: TokenBuckets, key: string, { perSecond }: AddressLimit): number =>
  Math.max(1, Math.ceil((1 - buckets.tokens(key)) / perSecond));
