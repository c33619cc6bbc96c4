import { errors, jwtVerify } from "jose";
import type { Clock } from "../../../kit/clock.ts";
import type { Secret } from "../../../kit/secret.ts";
import { bridgeAudience, webSubject } from "../../../proto/operator/bridge-token.ts";
import { Problem } from "../../problems.ts";
import type { Database } from "../../store/database.ts";
import { findPerson } from "../../store/people.ts";
import type { Operator } from "./operator.ts";

const leewaySeconds = 60;
const lifetimeSecondsMax = 3600;
const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/**
 * The operator that a bridge token names (spec, "Bridge token"; contract, section 2). Scopes are read from the database on each
 * call, so a change of the directory needs no new token. Anything wrong is one 401 `unauthenticated`; the reason is its cause.
 */
export const authenticateOperator = async (
  { db, ...needs }: { db: Database; clock: Clock; secret: Secret },
  token: string,
): Promise<Operator> => findOperator(db, await bridgeSubject(token, needs));

/** Who web calls as where it may speak for itself: as a person, or as itself (null). */
export type WebCaller = Operator | null;

/** Like `authenticateOperator`, but takes a bridge token of web itself too (contract, section 10). */
export const authenticateWeb = async (
  { db, ...needs }: { db: Database; clock: Clock; secret: Secret },
  token: string,
): Promise<WebCaller> => {
  const subject = await bridgeSubject(token, needs);
  return subject === webSubject ? null : findOperator(db, subject);
};

const findOperator = async (db: Database, subject: string): Promise<Operator> => {
  const row = uuid.test(subject) ? await findPerson(db, subject) : undefined;
  if (row === undefined) throw refused("no such person");
  if (row.status !== "active") throw refused(`the person is ${row.status}`);
  return { userId: row.userId, email: row.primaryEmail, scopes: row.scopes };
};

const bridgeSubject = async (token: string, { clock, secret }: { clock: Clock; secret: Secret }): Promise<string> => {
  const now = clock.now();
  const key = new TextEncoder().encode(secret.reveal());
  const { payload, protectedHeader } = await jwtVerify(token, key, {
    algorithms: ["HS256"],
    audience: bridgeAudience,
    clockTolerance: leewaySeconds,
    currentDate: new Date(now),
    requiredClaims: ["sub", "aud", "iat", "exp"],
  }).catch((cause: unknown) => {
    throw refused(cause instanceof errors.JOSEError ? cause.code : "malformed", cause);
  });
  const { aud, sub, iat, exp } = payload;
  if (protectedHeader.typ !== "JWT") throw refused("typ is not JWT");
  if (aud !== bridgeAudience) throw refused("aud is not core alone");
  if (sub === undefined || iat === undefined || exp === undefined) throw refused("a claim is missing");
  if (iat > now / 1000 + leewaySeconds) throw refused("iat is ahead");
  if (exp - iat > lifetimeSecondsMax) throw refused("lives longer than an hour");
  return sub;
};

const refused = (reason: string, cause?: unknown): Problem =>
  new Problem("unauthenticated", { cause: new Error(`bridge token: ${reason}`, { cause }) });
