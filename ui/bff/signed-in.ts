import * as v from "valibot";
import { withTimeout } from "#kit/clock.ts";
import { singleFlight } from "#kit/group-calls.ts";
import { createTokenBuckets } from "#kit/token-buckets.ts";
import type { Session } from "#proto/operator/session.ts";
import type { CoreClient } from "./core-client.ts";
import { WebProblem } from "./problems.ts";
import type { Handler, WebContext } from "./request.ts";
import type { Sessions, WebSession } from "./session.ts";
import { changeSeconds, isFresh } from "./sign-in/fresh-sign-in.ts";
import type { Web } from "./web.ts";

/** Answers one request of a person with a session. */
export type SignedInHandler = (c: WebContext, session: WebSession) => Promise<Response>;

/** The token bucket of a person: ten times the rate of the page while somebody types. */
const requestsPerSecond = 20;
const requestsBurst = 200;

/** The sign-in that a route needs: within the last `changeSeconds`, or that of any valid session. */
export type NeededSignIn = "recent" | "any";

/**
 * Admits requests with a session: 401 `unauthenticated` without one, 429 `rate_limited` over the person's limit, 403
 * `fresh_sign_in_required` if the route needs a recent sign-in and this one's is older.
 */
export const createSignedIn = (
  clock: Web["clock"],
  sessions: Sessions,
): ((handle: SignedInHandler, needed?: NeededSignIn) => Handler) => {
  const buckets = createTokenBuckets({ burst: requestsBurst, perSecond: requestsPerSecond, clock });
  return (handle, needed = "any") =>
    async (c) => {
      const state = await sessions.read(c.req.header("cookie"));
      if (state.kind !== "valid")
        throw new WebProblem(
          "unauthenticated",
          state.kind === "expired" ? { detail: "The session has expired" } : {},
        );
      const { userId } = state.session;
      if (!buckets.take(userId))
        throw new WebProblem("rate_limited", { retryAfterSeconds: buckets.waitMs(userId) / 1000 });
      const recently = { now: clock.now(), seconds: changeSeconds };
      if (needed === "recent" && !isFresh(state.session, recently))
        throw new WebProblem("fresh_sign_in_required");
      return handle(c, state.session);
    };
};

/** Ends the session and returns the 401 to throw: core no longer accepts the person (A3). */
export const endSession = async (c: WebContext, sessions: Sessions): Promise<WebProblem> => {
  c.header("Set-Cookie", await sessions.end(c.req.header("cookie")));
  return new WebProblem("unauthenticated", {
    detail: "Core no longer accepts this person: sign in again",
  });
};

/** `GET /api/session`: the session, the person's scopes as core reads them now, and whether core has chat. */
export const createSessionRoute = (
  { config, clock }: Pick<Web, "config" | "clock">,
  { sessions, core }: { sessions: Sessions; core: CoreClient },
): SignedInHandler => {
  const hasChat = createChatCheck(clock, core);
  return async (c, webSession) => {
    const { displayName, expiresAt } = webSession;
    const requestId = c.get("requestId");
    const [person, chatEnabled] = await Promise.all([
      core.whoami(webSession, requestId),
      hasChat(webSession, requestId),
    ]);
    if (person === null) throw await endSession(c, sessions);
    const view: Session = {
      user: { user_id: person.userId, email: person.email, display_name: displayName },
      scopes: person.scopes,
      expires_at: new Date(expiresAt * 1000).toISOString(),
      expires_in_seconds: Math.max(0, Math.ceil(expiresAt - clock.now() / 1000)),
      chat_enabled: chatEnabled,
      provider_name: config.identityProvider.name,
    };
    return c.json(view);
  };
};

const chatTimeoutMs = 1000;
const chatMaxAgeMs = 30_000;

/**
 * Returns a function that reports whether core has chat, as of at most 30 s ago. If core does not answer within a second it returns false, and
 * asks again the next time: a page without chat is better than no page.
 */
const createChatCheck = (
  clock: Web["clock"],
  core: CoreClient,
): ((person: WebSession, requestId: string) => Promise<boolean>) => {
  let known: { answer: boolean; at: number } | undefined;
  const ask = singleFlight(async (as: WebSession, requestId: string) => {
    const answer = await core
      .call({ path: "/v1/chat/status", as, requestId })
      .then(readChatAnswer, () => undefined);
    if (answer !== undefined) known = { answer, at: clock.monotonic() };
    return answer ?? false;
  });
  return async (person, requestId) => {
    if (known !== undefined && clock.monotonic() - known.at <= chatMaxAgeMs) return known.answer;
    return withTimeout(chatTimeoutMs, clock, ask(person, requestId)).catch(() => false);
  };
};

/** Returns undefined for a response that does not show whether core has chat. With chat, a person without the scope receives 403. */
const readChatAnswer = async (response: Response): Promise<boolean | undefined> => {
  if (response.ok || response.status === 403) {
    await response.body?.cancel();
    return true;
  }
  const failure = v.safeParse(ChatDisabled, await response.json().catch(() => undefined));
  return failure.success ? false : undefined;
};

/** Chat is switched off, or has no model. */
const ChatDisabled = v.object({ code: v.picklist(["service_disabled", "not_found"]) });
