import { errors, type JWTPayload, type JWTVerifyGetKey, jwtVerify } from "jose";

/** Asymmetric signatures alone: never `none`, and never HS256, whose key would be the public one. */
const algorithms = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"];

/** How much the clocks of an issuer and of core may differ. */
export const leewaySeconds = 60;

/**
 * Verifies the JWT of an identity provider or another issuer by its keys; clocks may differ by 60 s. It must say when it was issued and
 * when it expires. Throws jose's errors, and those of `keys`.
 */
export const verifyIssuerToken = async (
  token: string,
  keys: JWTVerifyGetKey,
  { issuer, audience, now }: { issuer: string; audience: string; now: number },
): Promise<JWTPayload> => {
  const { payload } = await jwtVerify(token, keys, {
    algorithms,
    issuer,
    audience,
    clockTolerance: leewaySeconds,
    currentDate: new Date(now),
    requiredClaims: ["iat", "exp"],
  });
  // jose compares `iat` only with a greatest age.
  if (Number(payload.iat) > now / 1000 + leewaySeconds)
    throw new errors.JWTClaimValidationFailed('"iat" is in the future', payload, "iat", "check_failed");
  return payload;
};
