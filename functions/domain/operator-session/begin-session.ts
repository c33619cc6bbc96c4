import type { SessionFlow } from "#drizzle/schema/operator.ts";
import type { ConfiguredCore } from "#functions/core.ts";
import { Problem } from "#functions/problems.ts";
import type { Executor } from "#functions/store/database/database.ts";
import type { PersonRow } from "#functions/store/directory/directory.ts";
import { findPerson, isWebSessionEnded } from "#functions/store/operator/operators.ts";
import { insertSession } from "#functions/store/operator-session/operator-sessions.ts";
import { uuidv7 } from "#kit/entropy.ts";
import { signJwt } from "#kit/jwt.ts";
import { bridgeAudience } from "#proto/operator/bridge-token.ts";
import type { Scope } from "#proto/operator/scopes.ts";
import { type Actor, type Origin, operatorActor, recordAudit } from "../audit/audit-log.ts";
import { type RefusalEntry, recordRefusals } from "../audit/record-refusals.ts";
import type { WebSessionOfCaller } from "../operator/authenticate.ts";

/** An hour, the longest lifetime that core accepts of a bridge token; the web session may end earlier. */
const sessionSeconds = 3600;

/** A token of a new session. */
export interface IssuedToken {
  accessToken: string;
  expiresInSeconds: number;
  scopes: readonly Scope[];
  sessionId: string;
}

/** The program and the person of a new session. */
interface SessionRequest {
  userId: string;
  flow: SessionFlow;
  clientName: string;
  /** The web session in which the person consented; null from a web that did not name it. */
  webSession: WebSessionOfCaller | null;
}

/** Why a program is not signed in; the reason code of the audit event. */
export type RefusedSession =
  | "code_replayed"
  | "code_expired"
  | "redirect_uri_mismatch"
  | "verifier_mismatch"
  | "consent_denied"
  | "person_not_active"
  | "web_session_ended";

/** Returns the web session of a row that stores a consent. */
export const webSessionOf = ({
  webSessionId: id,
  webSessionExpiresAt: expiresAt,
}: {
  webSessionId: string | null;
  webSessionExpiresAt: Date | null;
}): WebSessionOfCaller | null => (id === null || expiresAt === null ? null : { id, expiresAt });

/**
 * Begins a session of an active person, with its audit event, in the transaction that consumes the code. It ends with the web session in
 * which the person consented, or earlier. If that has ended, or the person is not active, returns null and audits the refusal.
 */
export const beginSession = async (
  tx: Executor,
  core: ConfiguredCore,
  { userId, flow, clientName, webSession }: SessionRequest,
  origin: Origin,
): Promise<IssuedToken | null> => {
  const person = await findPerson(tx, userId);
  if (person?.status !== "active") {
    await refuseSession(tx, core, { userId, clientName, reason: "person_not_active" }, origin);
    return null;
  }
  const id = uuidv7(core);
  const issuedAt = Math.floor(core.clock.now() / 1000);
  const expiresAt = expiryOf(issuedAt, webSession);
  const isOver = expiresAt <= issuedAt;
  if (isOver || (webSession !== null && (await isWebSessionEnded(tx, webSession.id)))) {
    await refuseSession(tx, core, { userId, clientName, reason: "web_session_ended" }, origin);
    return null;
  }
  await insertSession(tx, {
    id,
    userId,
    flow,
    clientName,
    remoteAddress: origin.remoteAddress,
    createdAt: new Date(core.clock.now()),
    expiresAt: new Date(expiresAt * 1000),
    revokedAt: null,
    webSessionId: webSession?.id ?? null,
  });
  await recordAudit(tx, core, {
    actor: actorOf(person),
    action: "operator_session.create",
    target: { type: "operator_session", id },
    outcome: "success",
    origin,
    details: {
      flow,
      client_name: clientName,
      expires_at: new Date(expiresAt * 1000).toISOString(),
    },
  });
  return {
    accessToken: await signToken(core, { id, userId, issuedAt, expiresAt }),
    expiresInSeconds: expiresAt - issuedAt,
    scopes: person.scopes,
    sessionId: id,
  };
};

/** Returns when a session ends, in seconds: at the latest with the web session. */
const expiryOf = (issuedAt: number, webSession: WebSessionOfCaller | null) =>
  Math.min(
    issuedAt + sessionSeconds,
    webSession === null
      ? Number.POSITIVE_INFINITY
      : Math.floor(webSession.expiresAt.getTime() / 1000),
  );

const signToken = (
  { config }: ConfiguredCore,
  session: { id: string; userId: string; issuedAt: number; expiresAt: number },
) =>
  signJwt(
    {
      sid: session.id,
      sub: session.userId,
      aud: bridgeAudience,
      iat: session.issuedAt,
      exp: session.expiresAt,
    },
    "JWT",
    config.authTokenSecret,
  );

/** Audits and counts that a program was not signed in (see `recordRefusals`): a used code can be sent any number of times. */
export const refuseSession = async (
  tx: Executor,
  core: ConfiguredCore,
  { userId, clientName, reason }: { userId: string; clientName: string; reason: RefusedSession },
  origin: Origin,
) => {
  const person = await findPerson(tx, userId);
  const refusal: RefusalEntry = {
    actor:
      person === undefined ? { type: "operator", id: userId, display: userId } : actorOf(person),
    action: "operator_session.refuse",
    target: { type: "person", id: userId },
    reasonCode: reason,
    origin,
    details: { client_name: clientName },
  };
  await recordRefusals(tx, core, [refusal]);
};

/** Returns the token, or throws 400 `invalid_grant`, which does not reveal the reason (RFC 6749, 5.2). */
export const tokenOrRefusal = (issued: IssuedToken | null): IssuedToken => {
  if (issued === null) throw new Problem("invalid_grant");
  return issued;
};

const actorOf = ({ userId, primaryEmail, scopes }: PersonRow): Actor =>
  operatorActor({ userId, email: primaryEmail, scopes });
