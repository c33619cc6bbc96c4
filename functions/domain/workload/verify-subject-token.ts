import { decodeJwt, errors, type JWTPayload } from "jose";
import * as v from "valibot";
import type { WorkloadIssuer } from "#functions/config/workload-config.ts";
import type { Clock } from "#kit/clock.ts";
import { isConfidentialUrl } from "#kit/confidential-url.ts";
import { createIssuerRequest, type IssuerRequest } from "#kit/foreign-json.ts";
import { createIssuerKeys, verifyIssuerToken } from "#kit/verify-issuer-token.ts";

/** Why a token is rejected; the reason code of the audit event. */
export type RejectedToken =
  | "token_malformed"
  | "issuer_unknown"
  | "audience_mismatch"
  | "token_expired"
  | "token_not_yet_valid"
  | "signature_invalid"
  | "subject_not_allowed";

/** A token was rejected. */
export class SubjectTokenRejected extends Error {
  override readonly name = "SubjectTokenRejected";
  readonly reason: RejectedToken;

  constructor(reason: RejectedToken, options?: ErrorOptions) {
    super(reason, options);
    this.reason = reason;
  }
}

/** The issuer's keys cannot be read. */
export class IssuerUnavailable extends Error {
  override readonly name = "IssuerUnavailable";
}

/** Verifies a token of one of the issuers. Throws `SubjectTokenRejected` or `IssuerUnavailable`. */
type VerifySubjectToken = (token: string) => Promise<{
  issuer: WorkloadIssuer;
  subject: string;
  payload: JWTPayload;
}>;

/** Anybody can send a token: at most one in this time makes core read the keys again. */
const keysCooldownMs = 30_000;

/** Creates the verifier. Reads an issuer's keys, and their address, when they are needed: see `createIssuerKeys`. */
export const createVerifySubjectToken = (
  issuers: () => readonly WorkloadIssuer[],
  { clock, fetch = globalThis.fetch }: { clock: Clock; fetch?: typeof globalThis.fetch },
): VerifySubjectToken => {
  const get = createIssuerRequest({ clock, fetch });
  const known = new WeakMap<WorkloadIssuer, ReturnType<ReturnType<typeof createIssuerKeys>>>();
  const keysOf = (issuer: WorkloadIssuer) => {
    const readKeys = async () => get(issuer.jwksUri ?? (await discoverKeys(issuer.issuer, get)));
    const keys = known.get(issuer) ?? createIssuerKeys(readKeys, clock)(keysCooldownMs);
    known.set(issuer, keys);
    return keys;
  };
  return async (token) => {
    const claimed = claimedIssuer(token);
    const issuer = issuers().find((each) => each.issuer === claimed);
    if (issuer === undefined) throw new SubjectTokenRejected("issuer_unknown");
    try {
      const payload = await verifyIssuerToken(token, keysOf(issuer), {
        ...issuer,
        now: clock.now(),
      });
      if (payload.sub === undefined) throw new SubjectTokenRejected("token_malformed");
      return { issuer, subject: payload.sub, payload };
    } catch (cause) {
      throw rejectionOf(cause);
    }
  };
};

const claimedIssuer = (token: string) => {
  try {
    return decodeJwt(token).iss;
  } catch (cause) {
    throw new SubjectTokenRejected("token_malformed", { cause });
  }
};

const claimRejections: Readonly<Record<string, RejectedToken>> = {
  aud: "audience_mismatch",
  iat: "token_not_yet_valid",
  nbf: "token_not_yet_valid",
};

const rejectionOf = (cause: unknown): Error => {
  if (cause instanceof SubjectTokenRejected) return cause;
  if (cause instanceof errors.JWTExpired)
    return new SubjectTokenRejected("token_expired", { cause });
  if (cause instanceof errors.JWTClaimValidationFailed)
    return new SubjectTokenRejected(claimRejections[cause.claim] ?? "token_malformed", { cause });
  if (
    cause instanceof errors.JWSSignatureVerificationFailed ||
    cause instanceof errors.JOSEAlgNotAllowed ||
    cause instanceof errors.JWKSNoMatchingKey ||
    cause instanceof errors.JWKSMultipleMatchingKeys
  )
    return new SubjectTokenRejected("signature_invalid", { cause });
  if (cause instanceof errors.JWSInvalid || cause instanceof errors.JWTInvalid)
    return new SubjectTokenRejected("token_malformed", { cause });
  return new IssuerUnavailable("the keys cannot be read", { cause });
};

const Discovery = v.object({ issuer: v.string(), jwks_uri: v.string() });

const discoverKeys = async (issuer: string, get: IssuerRequest) => {
  const metadata = v.parse(
    Discovery,
    await get(`${issuer.replace(/\/$/, "")}/.well-known/openid-configuration`),
  );
  if (metadata.issuer !== issuer) throw new Error("discovery: another issuer");
  if (!isConfidentialUrl(metadata.jwks_uri)) throw new Error("discovery: jwks_uri is not https");
  return metadata.jwks_uri;
};
