import type { Core, WriteCore } from "#functions/core.ts";
import type { Executor } from "#functions/store/database/database.ts";
import {
  countSessionsOfWebSession,
  insertEndedWebSession,
} from "#functions/store/operator-session/operator-sessions.ts";
import { type Actor, type Origin, recordAudit } from "./audit-log.ts";

/** The web session that ends. */
interface EndedSession {
  sessionId: string;
  userId: string;
  expiresAt: Date;
}

/** Who ends a session: the person, at web, or the identity provider. */
export const sessionEnders = {
  web: { type: "system", id: "web", display: "web" },
  identityProvider: { type: "system", id: "identity-provider", display: "identity provider" },
} as const satisfies Record<string, Actor>;

/**
 * Ends a web session for every web, with the sessions of the programs that the person consented to in it: core rejects their requests from
 * the next one on. Idempotent; only the first time writes the audit event.
 */
export const endWebSession = async (
  tx: Executor,
  core: Pick<Core, "clock" | "entropy">,
  { sessionId, userId, expiresAt }: EndedSession,
  { actor, origin }: { actor: Actor; origin: Origin },
) => {
  const now = new Date(core.clock.now());
  if (!(await insertEndedWebSession(tx, { id: sessionId, expiresAt }, now))) return;
  await recordAudit(tx, core, {
    action: "operator.sign_out",
    outcome: "success",
    origin,
    actor,
    target: { type: "person", id: userId },
    details: { programs: await countSessionsOfWebSession(tx, sessionId, now) },
  });
};

/** Ends the web session of a person who signed out, with the remote address that web saw. Idempotent. */
export const recordSignOut = async (
  { db, ...core }: WriteCore,
  { remoteAddress, ...session }: EndedSession & { remoteAddress: string },
  { requestId }: Pick<Origin, "requestId">,
): Promise<void> =>
  db.transaction((tx) =>
    endWebSession(tx, core, session, {
      actor: sessionEnders.web,
      origin: { requestId, remoteAddress },
    }),
  );
