import type { ConfiguredCore } from "#functions/core.ts";
import { Problem } from "#functions/problems.ts";
import { upsertWorkload } from "#functions/store/operator/operators.ts";
import { addressKey } from "#kit/address.ts";
import { uuidv7 } from "#kit/entropy.ts";
import { signJwt } from "#kit/jwt.ts";
import { createTokenBuckets } from "#kit/token-buckets.ts";
import { bridgeAudience } from "#proto/operator/bridge-token.ts";
import type { Scope } from "#proto/operator/scopes.ts";
import { type Origin, operatorActor, recordAudit } from "../audit/audit-log.ts";
import { createRecordRefusal } from "../audit/record-refusals.ts";
import { type ClaimedSubject, ruleClaims, workloadScopes } from "../operator/workload-scopes.ts";
import {
  createVerifySubjectToken,
  IssuerUnavailable,
  SubjectTokenRejected,
} from "./verify-subject-token.ts";

/** The lifetime of the token that a workload receives. */
const tokenSeconds = 900;

/** Consecutive refusals of one address whose problem is returned; then one every ten seconds. */
const refusalsBurst = 30;
const refusalsPerSecond = 0.1;

/** A token of a workload. */
interface ExchangedToken {
  accessToken: string;
  expiresInSeconds: number;
  scopes: readonly Scope[];
}

/** Exchanges a workload's own token (RFC 8693). */
type ExchangeToken = (subjectToken: string, origin: Origin) => Promise<ExchangedToken>;

/**
 * Creates the exchange. It verifies the token against its issuer's keys, and grants the scopes of the first matching rule. Audits and
 * counts refusals with their reason (see `recordRefusals`), which the problem does not name. Refusals of an address, which may be web's,
 * never limit a valid token. Throws 400 `invalid_grant`, 429 `throttled`, 502 `issuer_unavailable`.
 */
export const createTokenExchange = (core: ConfiguredCore): ExchangeToken => {
  const { config, clock } = core;
  const verify = createVerifySubjectToken(config.workloadIssuers, { clock });
  const record = createRecordRefusal(core);
  const refusals = createTokenBuckets({
    burst: refusalsBurst,
    perSecond: refusalsPerSecond,
    clock,
  });
  return async (subjectToken, origin) => {
    try {
      const { issuer, subject, payload } = await verify(subjectToken);
      const claimed = {
        issuer: issuer.issuer,
        subject,
        claims: ruleClaims(issuer.subjects, payload),
      };
      const scopes = workloadScopes(config.workloadIssuers(), claimed);
      if (scopes === null) throw new SubjectTokenRejected("subject_not_allowed");
      return await issue(core, { ...claimed, scopes }, origin);
    } catch (cause) {
      if (cause instanceof IssuerUnavailable) throw new Problem("issuer_unavailable", { cause });
      if (!(cause instanceof SubjectTokenRejected)) throw cause;
      await record({
        actor: { type: "system", id: "token-exchange", display: "token exchange" },
        action: "workload.refuse",
        target: { type: "workload", id: "" },
        reasonCode: cause.reason,
        origin,
      });
      if (!refusals.take(addressKey(origin.remoteAddress)))
        throw new Problem("throttled", { retryAfterSeconds: 10, cause });
      throw new Problem("invalid_grant", { detail: "The subject token is not accepted", cause });
    }
  };
};

const issue = async (
  core: ConfiguredCore,
  { issuer, subject, claims, scopes }: ClaimedSubject & { scopes: readonly Scope[] },
  origin: Origin,
): Promise<ExchangedToken> => {
  const now = core.clock.now();
  const iat = Math.floor(now / 1000);
  const id = await core.db.transaction(async (tx) => {
    const at = new Date(now);
    const row = await upsertWorkload(tx, {
      id: uuidv7(core),
      issuer,
      subject,
      firstSeenAt: at,
      lastSeenAt: at,
    });
    await recordAudit(tx, core, {
      actor: operatorActor({ kind: "workload", userId: row.id, email: subject, scopes }),
      action: "workload.exchange",
      target: { type: "workload", id: row.id },
      outcome: "success",
      origin,
      details: { issuer, subject, claims, scopes },
    });
    return row.id;
  });
  const accessToken = await signJwt(
    {
      workload: true,
      workload_claims: claims,
      sub: id,
      aud: bridgeAudience,
      iat,
      exp: iat + tokenSeconds,
    },
    "JWT",
    core.config.authTokenSecret,
  );
  return { accessToken, expiresInSeconds: tokenSeconds, scopes };
};
