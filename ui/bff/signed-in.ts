import type { Session as SessionView } from "../../proto/operator/session.ts";
import type { CoreClient } from "./core-client.ts";
import { Problem } from "./problems.ts";
import { createRateLimit } from "./rate-limit.ts";
import type { Handler, WebContext } from "./request.ts";
import type { Session, Sessions } from "./session.ts";
import type { Web } from "./web.ts";

/** Answers a request of somebody who has a session. */
export type SignedInHandler = (c: WebContext, session: Session) => Promise<Response>;

/** Ten times what the page asks for with all of it open and somebody typing. */
const personLimit = { perSecond: 20, burst: 200, keysMax: 10_000 };

/** Only for who has a session: 401 `unauthenticated` without one, 429 `rate_limited` for a person who asks too much. */
export const createSignedIn = (clock: Web["clock"], sessions: Sessions): ((handle: SignedInHandler) => Handler) => {
  const limit = createRateLimit({ clock, ...personLimit });
  return (handle) => async (c) => {
    const state = await sessions.read(c.req.header("cookie"));
    if (state.kind !== "valid")
      throw new Problem("unauthenticated", state.kind === "expired" ? { detail: "The session has expired" } : {});
    const retryAfterSeconds = limit(state.session.userId);
    if (retryAfterSeconds !== null) throw new Problem("rate_limited", { retryAfterSeconds });
    return handle(c, state.session);
  };
};

/** Ends the session in the browser, and gives the 401 to answer with: core does not take the person any more (A3). */
export const endSession = (c: WebContext, sessions: Sessions): Problem => {
  c.header("Set-Cookie", sessions.end());
  return new Problem("unauthenticated", { detail: "Core does not take this person any more: sign in again" });
};

/** `GET /api/session`: the session, and what core says of its person at this moment. */
export const createSessionRoute =
  ({ config }: Pick<Web, "config">, { sessions, core }: { sessions: Sessions; core: CoreClient }): SignedInHandler =>
  async (c, { userId, displayName, expiresAt }) => {
    const person = await core.whoami(userId, c.get("requestId"));
    if (person === null) throw endSession(c, sessions);
    const view: SessionView = {
      user: { user_id: person.userId, email: person.email, display_name: displayName },
      scopes: person.scopes,
      expires_at: new Date(expiresAt * 1000).toISOString(),
      chat_enabled: config.chatEnabled,
      provider_name: config.identityProvider.name,
    };
    return c.json(view);
  };
