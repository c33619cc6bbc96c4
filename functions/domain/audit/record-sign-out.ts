import type { Core } from "../../core.ts";
import { countSessionsOfWebSession, insertEndedWebSession } from "../../store/operator-session/operator-sessions.ts";
import { type Origin, recordAudit } from "./audit-log.ts";

/** The session at web that a person ended. */
export interface SignOut {
  sessionId: string;
  userId: string;
  expiresAt: Date;
  /** As web saw it. */
  remoteAddress: string;
}

/**
 * Ends a session at web for every web, with the sessions of the programs that the person consented to in it: core rejects what any of them
 * asks from the next request on. Idempotent; the first time writes the audit event.
 */
export const recordSignOut = async (
  { db, clock, entropy }: Pick<Core, "db" | "clock" | "entropy">,
  { sessionId, userId, expiresAt, remoteAddress }: SignOut,
  { requestId }: Pick<Origin, "requestId">,
): Promise<void> =>
  db.transaction(async (tx) => {
    const now = new Date(clock.now());
    if (!(await insertEndedWebSession(tx, { id: sessionId, expiresAt }, now))) return;
    await recordAudit(
      tx,
      { clock, entropy },
      {
        action: "operator.sign_out",
        outcome: "success",
        origin: { requestId, remoteAddress },
        actor: { type: "system", id: "web", display: "web" },
        target: { type: "person", id: userId },
        details: { programs: await countSessionsOfWebSession(tx, sessionId, now) },
      },
    );
  });
