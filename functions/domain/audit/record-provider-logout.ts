import type { Core } from "../../core.ts";
import { Problem } from "../../problems.ts";
import {
  insertUsedLogoutToken,
  listWebSessionsOf,
  lockProviderSession,
} from "../../store/operator-session/operator-sessions.ts";
import type { Origin } from "./audit-log.ts";
import { recordRefusals } from "./record-refusals.ts";
import { endWebSession, sessionEnders } from "./record-sign-out.ts";

/** A logout token that web has verified (OpenID Connect Back-Channel Logout 1.0). It names a person, a session at the provider, or both. */
export interface ProviderLogout {
  jti: string;
  subject: string | null;
  providerSessionId: string | null;
  /** From when on web rejects the token itself. */
  expiresAt: Date;
  /** As web saw it. */
  remoteAddress: string;
}

/**
 * Ends the sessions at web that a logout token names, each with its programs and an audit event. Accepts a token once; throws 409
 * `logout_token_replayed` for it later, which is audited.
 */
export const recordProviderLogout = async (
  { db, config, ...core }: Pick<Core, "config" | "db" | "clock" | "entropy">,
  { jti, subject, providerSessionId, expiresAt, remoteAddress }: ProviderLogout,
  { requestId }: Pick<Origin, "requestId">,
): Promise<void> => {
  const actor = sessionEnders.identityProvider;
  const origin = { requestId, remoteAddress };
  const isFirst = await db.transaction(async (tx) => {
    const now = new Date(core.clock.now());
    if (providerSessionId !== null) await lockProviderSession(tx, providerSessionId);
    if (!(await insertUsedLogoutToken(tx, { jti, providerSessionId, expiresAt }, now))) {
      const target = { type: "person", id: "" };
      const refusal = { reasonCode: "logout_token_replayed", about: jti, details: { subject } };
      await recordRefusals(tx, core, [{ actor, action: "operator.sign_out", target, origin, ...refusal }]);
      return false;
    }
    const { tenantId } = config;
    for (const { id, ...session } of await listWebSessionsOf(tx, { tenantId, subject, providerSessionId }, now))
      await endWebSession(tx, core, { ...session, sessionId: id }, { actor, origin });
    return true;
  });
  if (!isFirst) throw new Problem("logout_token_replayed");
};
