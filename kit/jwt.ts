import {
  errors,
  type JWTPayload,
  type JWTVerifyOptions,
  type JWTVerifyResult,
  jwtVerify,
  SignJWT,
} from "jose";
import type { Secret } from "./secret.ts";

/**
 * Verifies an HS256 JWT by `secret`, or by `previous` if `secret` did not sign it: during a rotation two secrets are accepted. Throws jose's
 * errors.
 */
export const verifyJwt = async (
  token: string,
  { secret, previous }: { secret: Secret; previous: Secret | null },
  options: Omit<JWTVerifyOptions, "algorithms">,
): Promise<JWTVerifyResult> => {
  const verifyBy = (key: Secret) =>
    jwtVerify(token, new TextEncoder().encode(key.reveal()), { ...options, algorithms: ["HS256"] });
  try {
    return await verifyBy(secret);
  } catch (cause) {
    if (previous === null || !(cause instanceof errors.JWSSignatureVerificationFailed)) throw cause;
    return verifyBy(previous);
  }
};

/** Signs claims as an HS256 JWT of a type. */
export const signJwt = (claims: JWTPayload, typ: string, secret: Secret): Promise<string> =>
  new SignJWT(claims)
    .setProtectedHeader({ alg: "HS256", typ })
    .sign(new TextEncoder().encode(secret.reveal()));
