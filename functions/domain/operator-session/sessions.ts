import type { ConfiguredCore } from "#functions/core.ts";
import { Problem } from "#functions/problems.ts";
import type { Paged, PageRequest } from "#functions/store/database/statements.ts";
import {
  type ListedSession,
  listSessions,
  lockSession,
  updateSessionRevoked,
} from "#functions/store/operator-session/operator-sessions.ts";
import { type By, recordOperatorAction } from "../audit/audit-log.ts";
import type { Operator } from "../operator/authenticate.ts";

/** The state of a session. */
type SessionState = "revoked" | "expired" | "active";

/** Returns the state of a session at `now`. */
export const sessionState = (
  { revokedAt, expiresAt, isWebSessionEnded }: ListedSession,
  now: number,
): SessionState => {
  if (revokedAt !== null || isWebSessionEnded) return "revoked";
  return expiresAt.getTime() <= now ? "expired" : "active";
};

/** Returns one page of the caller's sessions, or of everyone's for an admin who requests them. Throws 403 `forbidden`. */
export const browseSessions = async (
  { db }: Pick<ConfiguredCore, "db">,
  operator: Operator,
  { everyone }: { everyone: boolean },
  page: PageRequest,
): Promise<Paged<ListedSession>> => {
  if (everyone && !operator.scopes.includes("admin"))
    throw new Problem("forbidden", {
      detail: "Sessions of others need the scope admin",
      extensions: { scope: "admin" },
    });
  return listSessions(db, { userId: everyone ? undefined : operator.userId }, page);
};

/**
 * Revokes a session of the caller, or anyone's as an admin; idempotent. Core rejects its token from the next request on. Throws 404
 * `not_found`, also for another person's session.
 */
export const revokeSession = async (
  core: ConfiguredCore,
  by: By,
  { sessionId }: { sessionId: string },
): Promise<void> =>
  core.db.transaction(async (tx) => {
    const row = await lockSession(tx, sessionId);
    if (
      row === undefined ||
      (row.userId !== by.caller.userId && !by.caller.scopes.includes("admin"))
    )
      throw new Problem("not_found", { detail: "No such session" });
    if (row.revokedAt !== null) return;
    await updateSessionRevoked(tx, sessionId, new Date(core.clock.now()));
    await recordOperatorAction(tx, core, by, {
      action: "operator_session.revoke",
      target: { type: "operator_session", id: sessionId },
      details: { user_id: row.userId, client_name: row.clientName },
    });
  });
