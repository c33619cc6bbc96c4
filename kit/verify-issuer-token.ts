import {
  createLocalJWKSet,
  errors,
  type JSONWebKeySet,
  type JWTPayload,
  type JWTVerifyGetKey,
  jwtVerify,
} from "jose";
import type { Clock } from "./clock.ts";
import { singleFlight } from "./group-calls.ts";

/** Only asymmetric signatures: never `none`, and never HS256, whose key would be the public one. */
const algorithms = [
  "RS256",
  "RS384",
  "RS512",
  "PS256",
  "PS384",
  "PS512",
  "ES256",
  "ES384",
  "ES512",
  "EdDSA",
];

/** How much the clocks of an issuer and of core may differ. */
export const leewaySeconds = 60;

/** jose parses header and payload before it checks the signature. Tokens with all groups of a person have some KiB. */
const tokenCharactersMax = 64 * 1024;

/**
 * Verifies the JWT of an identity provider or another issuer by its keys; clocks may differ by 60 s. The token needs `iat` and `exp`. Throws
 * jose's errors, and those of `keys`.
 */
export const verifyIssuerToken = async (
  token: string,
  keys: JWTVerifyGetKey,
  { issuer, audience, now }: { issuer: string; audience: string; now: number },
): Promise<JWTPayload> => {
  if (token.length > tokenCharactersMax)
    throw new errors.JWTInvalid(`the token is over ${tokenCharactersMax} bytes`);
  const { payload } = await jwtVerify(token, keys, {
    algorithms,
    issuer,
    audience,
    clockTolerance: leewaySeconds,
    currentDate: new Date(now),
    requiredClaims: ["iat", "exp"],
  });
  // jose checks `iat` only against a maximum age.
  if (Number(payload.iat) > now / 1000 + leewaySeconds)
    throw new errors.JWTClaimValidationFailed(
      '"iat" is in the future',
      payload,
      "iat",
      "check_failed",
    );
  return payload;
};

const keysMaxAgeMs = 600_000;

/**
 * Returns the keys of an issuer, for callers that share a cache. Reads its JWKS on first use, after ten minutes, and for an unknown key unless
 * the same caller caused a read within its `cooldownMs`. Uses the monotonic clock: jose's own cache uses the system's, and does not refresh for as
 * long as that was set back. Throws jose's errors, and those of `read`.
 */
export const createIssuerKeys = (
  read: () => Promise<unknown>,
  clock: Pick<Clock, "monotonic">,
): ((cooldownMs: number) => JWTVerifyGetKey) => {
  let known: { keys: JWTVerifyGetKey; readAt: number } | undefined;
  const reload = singleFlight(async () => {
    // Throws if it is not a set of keys.
    const keys = createLocalJWKSet((await read()) as JSONWebKeySet);
    known = { keys, readAt: clock.monotonic() };
    return known;
  });
  return (cooldownMs) => {
    let reloadedAt = Number.NEGATIVE_INFINITY;
    const reloadFor = () => {
      reloadedAt = clock.monotonic();
      return reload();
    };
    return async (header, token) => {
      const isFresh = known !== undefined && clock.monotonic() - known.readAt < keysMaxAgeMs;
      const { keys } = known !== undefined && isFresh ? known : await reloadFor();
      try {
        return await keys(header, token);
      } catch (error) {
        if (
          !(error instanceof errors.JWKSNoMatchingKey) ||
          clock.monotonic() - reloadedAt < cooldownMs
        )
          throw error;
        return (await reloadFor()).keys(header, token);
      }
    };
  };
};
