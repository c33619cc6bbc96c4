import type { ConfiguredCore, Core, WriteCore } from "#functions/core.ts";
import { Problem } from "#functions/problems.ts";
import type { Executor } from "#functions/store/database/database.ts";
import {
  countSessionsOfWebSession,
  insertEndedWebSession,
  insertUsedLogoutToken,
  insertWebSession,
  isProviderSessionEnded,
  listWebSessionsOf,
  lockPersonSessions,
  lockProviderSession,
} from "#functions/store/operator-session/operator-sessions.ts";
import type { WebCaller } from "../operator/authenticate.ts";
import { type Actor, type Origin, operatorActor, recordAudit } from "./audit-log.ts";
import { recordRefusals } from "./record-refusals.ts";

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

/** The web session that begins with a sign-in. */
interface BegunSession {
  id: string;
  expiresAt: Date;
  /** The session at the identity provider; null if the provider names none. */
  providerSessionId: string | null;
}

/** The outcome of a sign-in. A failure names the person if web knows the name. */
type SignIn =
  | {
      outcome: "success";
      remoteAddress: string;
      /** Null from a web that does not name it: then only the person's own sign-out ends it. */
      session: BegunSession | null;
    }
  | {
      outcome: "failure";
      reasonCode: string;
      remoteAddress: string;
      userId: string | null;
      subject: string | null;
    };

/**
 * Writes the audit event of a sign-in at web, with the remote address that web saw. Web reports a success with the person's bridge token
 * and a failure with its own; throws 403 `forbidden` otherwise.
 */
export const recordSignIn = async (
  { db, clock, entropy }: WriteCore,
  caller: WebCaller,
  signIn: SignIn,
  { requestId }: Pick<Origin, "requestId">,
) => {
  const origin = { requestId, remoteAddress: signIn.remoteAddress };
  const entry = { action: "operator.sign_in", outcome: signIn.outcome, origin } as const;
  if (signIn.outcome === "success") {
    if (caller === null)
      throw new Problem("forbidden", { detail: "Report a success with the person's bridge token" });
    const { userId } = caller;
    const target = { type: "person", id: userId };
    const { session } = signIn;
    await db.transaction(async (tx) => {
      await recordAudit(tx, { clock, entropy }, { ...entry, actor: operatorActor(caller), target });
      if (session !== null)
        await beginWebSession(tx, { clock, entropy }, { ...session, userId }, origin);
    });
    return;
  }
  if (caller !== null)
    throw new Problem("forbidden", { detail: "Report a failure with web's own bridge token" });
  const { userId, subject, reasonCode } = signIn;
  await db.transaction((tx) =>
    recordRefusals(tx, { clock, entropy }, [
      {
        actor: { type: "system", id: "web", display: "web" },
        action: "operator.sign_in",
        target: { type: "person", id: userId ?? "" },
        // The first event of each unknown person contains their subject, so that an operator can learn it.
        about: userId ?? subject ?? "",
        reasonCode,
        origin,
        details: { subject },
      },
    ]),
  );
};

/** Stores a web session. It has already ended if the provider has meanwhile reported the end of its own session. */
const beginWebSession = async (
  tx: Executor,
  core: Pick<Core, "clock" | "entropy">,
  session: BegunSession & { userId: string },
  origin: Origin,
) => {
  const { id: sessionId, providerSessionId } = session;
  await lockPersonSessions(tx, session);
  if (providerSessionId !== null) await lockProviderSession(tx, providerSessionId);
  const now = new Date(core.clock.now());
  await insertWebSession(tx, session, now);
  if (providerSessionId !== null && (await isProviderSessionEnded(tx, providerSessionId, now)))
    await endWebSession(
      tx,
      core,
      { ...session, sessionId },
      { actor: sessionEnders.identityProvider, origin },
    );
};

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
) => {
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
