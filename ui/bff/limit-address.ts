import { addressKey } from "#kit/address.ts";
import type { Clock } from "#kit/clock.ts";
import { createTokenBuckets } from "#kit/token-buckets.ts";
import { WebProblem } from "./problems.ts";
import type { Handler, WebContext } from "./request.ts";

/** The requests of a key: `burst` at once, then `perSecond`. */
interface RequestLimit {
  burst: number;
  perSecond: number;
}

/** Of an address: token requests whose code this deployment does not know. Each known code has `codeLimit`. */
export const tokenLimit: RequestLimit = { burst: 200, perSecond: 20 };
/** Of an address: requests for a device's codes. A person needs one, but many people may share an address. */
export const deviceLimit: RequestLimit = { burst: 50, perSecond: 1 };
/** Of a code: token requests. A program polls once in five seconds. */
export const codeLimit: RequestLimit = { burst: 3, perSecond: 1 };
/** Of an address: tokens that core or web rejected. As high as `tokenLimit`, because valid tokens may share the address of an edge. */
const refusalLimit = tokenLimit;

/**
 * Limits the requests of one address, an IPv6 /64, in this process. Answers 429 `slow_down` in the form of RFC 6749 (5.2) with
 * `Retry-After`.
 */
export const limitAddress = (clock: Clock, limit: RequestLimit, handle: Handler): Handler => {
  const refuse = createLimit(clock, limit, "Too many requests of this address");
  return (c) => refuse(c, addressKey(c.get("remoteAddress"))) ?? handle(c);
};

/** Returns a function that counts a request of a key. Over the limit it returns 429 `slow_down` with `Retry-After`, else null. */
export const createLimit = (clock: Clock, limit: RequestLimit, description: string) => {
  const buckets = createTokenBuckets({ ...limit, clock });
  return (c: WebContext, key: string): Response | null => {
    if (buckets.take(key)) return null;
    c.header("Retry-After", String(Math.max(1, Math.ceil(buckets.waitMs(key) / 1000))));
    return c.json({ error: "slow_down", error_description: description }, 429);
  };
};

/** Limits the rejected tokens of one address. */
export type RefusalLimit = ReturnType<typeof createRefusalLimit>;

/** Creates a limit of rejected tokens in this process. */
export const createRefusalLimit = (clock: Clock) => {
  const buckets = createTokenBuckets({ ...refusalLimit, clock });
  return {
    /** Throws 429 `rate_limited` unless the address may send a token now. */
    check: (address: string): void => {
      const waitMs = buckets.waitMs(addressKey(address));
      if (waitMs > 0)
        throw new WebProblem("rate_limited", {
          detail: "Too many refused tokens of this address",
          retryAfterSeconds: waitMs / 1000,
        });
    },
    recordRefusal: (address: string): void => {
      buckets.take(addressKey(address));
    },
  };
};
