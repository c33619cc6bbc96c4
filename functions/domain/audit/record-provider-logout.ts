import type { ConfiguredCore } from "#functions/core.ts";
import { Problem } from "#functions/problems.ts";
import {
  insertUsedLogoutToken,
  listWebSessionsOf,
  lockPersonSessions,
  lockProviderSession,
} from "#functions/store/operator-session/operator-sessions.ts";
import type { Origin } from "./audit-log.ts";
import { recordRefusals } from "./record-refusals.ts";
import { endWebSession, sessionEnders } from "./record-sign-out.ts";

/** A logout token that web has verified (OpenID Connect Back-Channel Logout 1.0). It names a person, a session at the provider, or both. */
interface ProviderLogout {
  jti: string;
  subject: string | null;
  providerSessionId: string | null;
  /** When web begins to reject the token itself. */
  expiresAt: Date;
  /** The address that web saw. */
  remoteAddress: string;
}

/** A web that could not reach core reports a token late, perhaps after another web did. */
const keptMsMin = 60_000;

/**
 * Ends the web sessions that a logout token names, each with its programs and an audit event. Does nothing for the same token again, which
 * a provider without a response sends and each web retries. Throws 409 `logout_token_replayed` for another token with its `jti`; audited.
 */
export const recordProviderLogout = async (
  { db, config, ...core }: ConfiguredCore,
  { jti, subject, providerSessionId, expiresAt, remoteAddress }: ProviderLogout,
  { requestId }: Pick<Origin, "requestId">,
): Promise<void> => {
  const actor = sessionEnders.identityProvider;
  const origin = { requestId, remoteAddress };
  const isAccepted = await db.transaction(async (tx) => {
    const now = new Date(core.clock.now());
    const { tenantId } = config;
    if (subject !== null) await lockPersonSessions(tx, { tenantId, subject });
    if (providerSessionId !== null) await lockProviderSession(tx, providerSessionId);
    const keptUntil = new Date(Math.max(expiresAt.getTime(), now.getTime() + keptMsMin));
    const before = await insertUsedLogoutToken(
      tx,
      { jti, subject, providerSessionId, expiresAt: keptUntil },
      now,
    );
    if (before !== undefined) {
      const isOfSame =
        before.providerSessionId === providerSessionId && (before.subject ?? subject) === subject;
      // A row is kept for at least as long as its token is valid, so a token that is valid for longer is another one.
      if (isOfSame && expiresAt <= before.expiresAt) return true;
      const target = { type: "person", id: "" };
      const refusal = { reasonCode: "logout_token_replayed", about: jti, details: { subject } };
      await recordRefusals(tx, core, [
        { actor, action: "operator.sign_out", target, origin, ...refusal },
      ]);
      return false;
    }
    for (const { id, ...session } of await listWebSessionsOf(
      tx,
      { tenantId, subject, providerSessionId },
      now,
    ))
      await endWebSession(tx, core, { ...session, sessionId: id }, { actor, origin });
    return true;
  });
  if (!isAccepted) throw new Problem("logout_token_replayed");
};
