import { addressKey } from "#kit/address.ts";
import type { Clock } from "#kit/clock.ts";
import { createTokenBuckets, type TokenBuckets } from "#kit/token-buckets.ts";
import type { Handler, WebContext } from "./request.ts";

/** The requests of an address: `burst` at once, then `perSecond`. */
interface AddressLimit {
  burst: number;
  perSecond: number;
}

/** Codes that no web of this deployment made, or that expired; the others are limited each by itself. */
export const tokenLimit: AddressLimit = { burst: 200, perSecond: 20 };
/** A person asks for a device's codes once; a company behind one address has many. */
export const deviceLimit: AddressLimit = { burst: 50, perSecond: 1 };
/** A program polls once in five seconds. */
export const codeLimit: AddressLimit = { burst: 3, perSecond: 1 };
/** Tokens that were not accepted: of workloads by core, of the identity provider by web. As wide: others of an edge's address may be valid. */
const refusalLimit = tokenLimit;

/**
 * Limits the requests of one address, an IPv6 /64, in this process. Answers 429 `slow_down` in the form of RFC 6749 (5.2) with
 * `Retry-After`.
 */
export const limitAddress = (clock: Clock, limit: AddressLimit, handle: Handler): Handler => {
  const refusal = createLimit(clock, limit, "Too many requests of this address");
  return (c) => refusal(c, addressKey(c.get("remoteAddress"))) ?? handle(c);
};

/** Takes a request of `key`; returns 429 `slow_down` with `Retry-After` over the limit, else null. */
export const createLimit = (clock: Clock, limit: AddressLimit, description: string) => {
  const buckets = createTokenBuckets({ ...limit, clock });
  return (c: WebContext, key: string): Response | null => {
    if (buckets.take(key)) return null;
    c.header("Retry-After", String(retryAfterSeconds(buckets, key)));
    return c.json({ error: "slow_down", error_description: description }, 429);
  };
};

/** Limits the refused tokens of one address. */
export interface RefusalLimit {
  /** Returns the seconds after which the address may try again; null when it may now. */
  retryAfterSeconds(address: string): number | null;
  /** Counts a refusal. */
  refused(address: string): void;
}

/** Creates a limit of refused tokens of this process. */
export const createRefusalLimit = (clock: Clock): RefusalLimit => {
  const buckets = createTokenBuckets({ ...refusalLimit, clock });
  return {
    retryAfterSeconds: (address) => {
      const key = addressKey(address);
      return buckets.waitMs(key) > 0 ? retryAfterSeconds(buckets, key) : null;
    },
    refused: (address) => void buckets.take(addressKey(address)),
  };
};

const retryAfterSeconds = (buckets: TokenBuckets, key: string) =>
  Math.max(1, Math.ceil(buckets.waitMs(key) / 1000));
