import { errors, type JWTPayload } from "jose";
import type { CoreConfig } from "#functions/config/core-config.ts";
import type { WorkloadIssuer } from "#functions/config/workload-config.ts";
import { Problem } from "#functions/problems.ts";
import type { Database } from "#functions/store/database/database.ts";
import {
  findPerson,
  findSessionPerson,
  findWebSessionPerson,
  findWorkload,
} from "#functions/store/operator/operators.ts";
import { type Clock, possibleTimes } from "#kit/clock.ts";
import { verifyJwt } from "#kit/jwt.ts";
import { bridgeAudience, webSessionId, webSubject } from "#proto/operator/bridge-token.ts";
import type { Scope } from "#proto/operator/scopes.ts";
import { fromBase64url, isUuid } from "#proto/values.ts";
import { workloadScopes } from "./workload-scopes.ts";

/** A person or a workload that calls core, with the scopes that it has at the time of the call. */
export interface Operator {
  /** Absent for a person. */
  kind?: "workload";
  /** The id of the person, or of the workload. */
  userId: string;
  /** The address of the person, or the subject of the workload. */
  email: string;
  scopes: readonly Scope[];
  /** The session of the program that calls; absent for web. */
  sessionId?: string;
  /** The web session for which web calls. */
  webSession?: WebSessionOfCaller;
}

/** A web session, as web names it. */
export interface WebSessionOfCaller {
  id: string;
  expiresAt: Date;
}

/** The caller of a route that web itself may call: a person, or null for web itself. */
export type WebCaller = Operator | null;

/** What verifying a bridge token needs. */
interface Verification {
  clock: Clock;
  config: Pick<CoreConfig, "authTokenSecret" | "authTokenSecretPrevious" | "workloadIssuers">;
}

const leewaySeconds = 60;
const lifetimeSecondsMax = 3600;

/**
 * Verifies a bridge token (docs/sign-in.md). Returns a function that finds its operator, with the scopes that the database has at each
 * call: so a change of the directory needs no new token, and a response that outlives the token, but not the web session, can check again.
 * Both throw 401 `unauthenticated` for any fault, with the reason as the cause. Only a token that web has signed for this call, and whose
 * times fit no clock of core, is 401 `token_clock_skew`: web's clock differs, and the session has not ended.
 */
export const operatorOf = async (
  { db, ...needs }: { db: Database } & Verification,
  token: string,
): Promise<() => Promise<Operator>> => {
  const claims = await bridgeClaims(token, needs);
  return async () => {
    if (possibleTimes(needs.clock).every((now) => now >= claims.endsAt))
      throw rejected("the session has expired");
    return claims.isWorkload
      ? findWorkloadOperator(db, claims, needs.config.workloadIssuers())
      : findOperator(db, claims, needs.clock.now());
  };
};

/** Authenticates as `operatorOf` does, but also accepts a bridge token of web itself. Throws 403 `forbidden` for a program's token. */
export const authenticateWeb = async (
  { db, ...needs }: { db: Database } & Verification,
  token: string,
): Promise<WebCaller> => {
  const claims = await bridgeClaims(token, needs);
  if (claims.isWorkload) throw notAtWeb();
  if (claims.subject === webSubject && claims.sessionId === null) return null;
  const operator = await findOperator(db, claims, needs.clock.now());
  // A program must not extend its own session, or approve another one.
  if (operator.sessionId !== undefined) throw notAtWeb();
  return operator;
};

const notAtWeb = () =>
  new Problem("forbidden", { detail: "Only a person who is signed in at web may do this" });

interface BridgeClaims {
  subject: string;
  /** The session of a program. */
  sessionId: string | null;
  /** The web session for which web calls. */
  webSessionId: string | null;
  /** Null from a web that does not name it. */
  webSessionExpiresAt: Date | null;
  /** Until when a response to the token may continue: for a workload as long as the token is valid, for web as long as its session. */
  endsAt: number;
  isWorkload: boolean;
  /** Claims of the workload's own token, by which rules match. */
  workloadClaims: Readonly<Record<string, string>>;
}

/** Uses the scopes of the issuers' current file, so that a restart without a pattern invalidates its tokens. */
const findWorkloadOperator = async (
  db: Database,
  { subject: id, workloadClaims: claims }: BridgeClaims,
  issuers: readonly WorkloadIssuer[],
): Promise<Operator> => {
  const row = isUuid(id) ? await findWorkload(db, id) : undefined;
  const scopes = row === undefined ? null : workloadScopes(issuers, { ...row, claims });
  if (row === undefined || scopes === null) throw rejected("no such workload");
  return { kind: "workload", userId: row.id, email: row.subject, scopes };
};

const findOperator = async (db: Database, claims: BridgeClaims, now: number): Promise<Operator> => {
  const { subject, sessionId, webSessionId, webSessionExpiresAt } = claims;
  const row = isUuid(subject) ? await findCaller(db, claims, now) : undefined;
  if (row === undefined) throw rejected("no such person, or the session has ended");
  if (row.status === "held") throw new Problem("access_held");
  if (row.status !== "active") throw rejected(`the person is ${row.status}`);
  const session = sessionId === null ? {} : { sessionId };
  const atWeb =
    webSessionId === null || webSessionExpiresAt === null
      ? {}
      : { webSession: { id: webSessionId, expiresAt: webSessionExpiresAt } };
  return { userId: row.userId, email: row.primaryEmail, scopes: row.scopes, ...session, ...atWeb };
};

const findCaller = (
  db: Database,
  { subject: userId, sessionId, webSessionId }: BridgeClaims,
  now: number,
) => {
  if (sessionId !== null) return findSessionPerson(db, { sessionId, userId, now: new Date(now) });
  return webSessionId === null
    ? findPerson(db, userId)
    : findWebSessionPerson(db, { webSessionId, userId });
};

const bridgeClaims = async (
  token: string,
  { clock, config }: Verification,
): Promise<BridgeClaims> => {
  // jose ignores the unused bits of the last character, so several texts would be one token.
  if (token.split(".").some((segment) => fromBase64url(segment) === null))
    throw rejected("a segment is not canonical base64url");
  const secrets = { secret: config.authTokenSecret, previous: config.authTokenSecretPrevious };
  const verifyAt = (now: number) =>
    verifyJwt(token, secrets, {
      audience: bridgeAudience,
      clockTolerance: leewaySeconds,
      currentDate: new Date(now),
      requiredClaims: ["sub", "aud", "iat", "exp"],
    });
  // The token is valid if it is valid by one of core's clocks: the database's or its machine's.
  const [now, machineNow] = possibleTimes(clock);
  const { payload, protectedHeader } = await verifyAt(now)
    .catch((cause: unknown) => {
      if (machineNow !== now && cause instanceof errors.JWTExpired) return verifyAt(machineNow);
      throw cause;
    })
    .catch((cause: unknown) => {
      if (cause instanceof errors.JWTExpired && isMadeForCall(cause.payload))
        throw clocksDiffer(clock, cause);
      throw rejected(cause instanceof errors.JOSEError ? cause.code : "malformed", cause);
    });
  const { aud, sub, iat, exp, sid = null, workload = false, workload_claims: own } = payload;
  const { web_session: webSession = null, web_session_exp: webSessionExp = null } = payload;
  if (protectedHeader.typ !== "JWT") throw rejected("typ is not JWT");
  if (aud !== bridgeAudience) throw rejected("aud is not core alone");
  if (typeof sub !== "string" || iat === undefined || exp === undefined)
    throw rejected("a claim is missing");
  if (iat > Math.max(now, machineNow) / 1000 + leewaySeconds)
    throw isMadeForCall(payload)
      ? clocksDiffer(clock, new Error("bridge token: iat is in the future"))
      : rejected("iat is in the future");
  if (exp - iat > lifetimeSecondsMax) throw rejected("lives longer than an hour");
  if (sid !== null && !(typeof sid === "string" && isUuid(sid)))
    throw rejected("sid is not a session id");
  if (webSession !== null && !(typeof webSession === "string" && webSessionId.test(webSession)))
    throw rejected("web_session is not a session id");
  if (webSessionExp !== null && !Number.isSafeInteger(webSessionExp))
    throw rejected("web_session_exp is not a time");
  return {
    subject: sub,
    sessionId: sid,
    webSessionId: webSession,
    webSessionExpiresAt: typeof webSessionExp === "number" ? new Date(webSessionExp * 1000) : null,
    endsAt:
      1000 *
      (leewaySeconds +
        Math.max(exp, workload === true ? exp : Number(webSessionExp ?? Number.POSITIVE_INFINITY))),
    isWorkload: workload === true,
    workloadClaims: textsOf(own),
  };
};

/** Reports whether web made the token for one call: such a token is never an old one that has expired. */
const isMadeForCall = ({ sub, web_session }: JWTPayload) =>
  sub === webSubject || web_session !== undefined;

const clocksDiffer = (clock: Clock, cause: Error): Problem =>
  new Problem("token_clock_skew", {
    extensions: { server_time: new Date(clock.now()).toISOString() },
    cause,
  });

const textsOf = (claims: unknown): Record<string, string> =>
  typeof claims === "object" && claims !== null
    ? Object.fromEntries(Object.entries(claims).filter(([, value]) => typeof value === "string"))
    : {};

const rejected = (reason: string, cause?: unknown): Problem =>
  new Problem("unauthenticated", { cause: new Error(`bridge token: ${reason}`, { cause }) });
