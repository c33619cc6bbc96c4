import { Problem } from "#functions/problems.ts";
import { addressKey } from "#kit/address.ts";
import { equalBytes, sha256 } from "#kit/bytes.ts";
import { createTokenBuckets } from "#kit/token-buckets.ts";
import type { Origin } from "../audit/audit-log.ts";
import { createRecordRefusal } from "../audit/record-refusals.ts";
import { scimActor } from "../directory/apply-snapshot.ts";
import type { ScimCore } from "./push.ts";

/** Consecutive refusals of one address that get a 401; then one every ten seconds. */
const refusalsBurst = 30;
const refusalsPerSecond = 0.1;
/** Requests of the identity provider to one core: more than any provider sends, and far fewer than would starve others. */
const requestsBurst = 500;
const requestsPerSecond = 100;

/** Admits an identity provider by its bearer token; `token` is undefined without one. */
export type AuthenticateProvider = (token: string | undefined, origin: Origin) => Promise<void>;

/**
 * Creates the check of the bearer token. Audits and counts refusals (see `recordRefusals`), and limits requests and refusals of one
 * address; refusals never limit a valid token. Throws 401 `unauthenticated`, 429 `throttled` and `scim_too_many_requests`.
 */
export const createAuthenticateProvider = (core: ScimCore): AuthenticateProvider => {
  const { clock, config, scim } = core;
  const record = createRecordRefusal(core);
  const refusals = createTokenBuckets({
    burst: refusalsBurst,
    perSecond: refusalsPerSecond,
    clock,
  });
  const requests = createTokenBuckets({
    burst: requestsBurst,
    perSecond: requestsPerSecond,
    clock,
  });
  return async (token, origin) => {
    if (token !== undefined && (await isOneOf(token, scim))) {
      if (!requests.take("")) throw new Problem("scim_too_many_requests", { retryAfterSeconds: 1 });
      return;
    }
    await record({
      actor: scimActor,
      action: "scim.refuse",
      target: { type: "directory", id: config.directory.domain },
      reasonCode: token === undefined ? "token_missing" : "token_invalid",
      origin,
    });
    if (!refusals.take(addressKey(origin.remoteAddress)))
      throw new Problem("throttled", {
        detail: "Too many refused tokens from this address",
        retryAfterSeconds: 10,
      });
    throw new Problem("unauthenticated");
  };
};

/** Compares digests, and all of them, so that the duration depends on no token. */
const isOneOf = async (given: string, { tokens }: ScimCore["scim"]) => {
  const digest = await sha256(given);
  const digests = await Promise.all(tokens.reveal().map((token) => sha256(token)));
  return digests.filter((known) => equalBytes(known, digest)).length > 0;
};
