import type { Clock } from "#kit/clock.ts";
import { type CoreClient, coreProblem } from "../core-client.ts";
import { WebProblem } from "../problems.ts";
import type { WebContext } from "../request.ts";
import type { Sessions, WebSession } from "../session.ts";
import { isFresh } from "../sign-in/fresh-sign-in.ts";
import { localPath } from "../sign-in/local-path.ts";
import { loginPath } from "../sign-in/routes.ts";
import { endSession } from "../signed-in.ts";
import type { Consenting } from "./consent.ts";

/** The person of a page, as core reports them now. */
export type PersonOfPage = Consenting & { session: WebSession };

/** The conditions under which a page asks a person. */
export interface ConsentQuestion {
  /** The path to come back to after a sign-in. */
  returnTo: string;
  /** Whether the person must have signed in within the last minutes. */
  needsFresh: boolean;
}

/** Calls `then` with the person who is signed in; redirects a GET of others to the sign-in page, and back. */
export type AskPerson = (
  c: WebContext,
  question: ConsentQuestion,
  then: (person: PersonOfPage) => Promise<Response>,
) => Promise<Response>;

/**
 * Creates an `AskPerson`. A POST without a session throws 401 `unauthenticated`, and one after an older sign-in 401 `fresh_sign_in_required`:
 * a redirect must not repeat its decision.
 */
export const createAskPerson =
  ({ sessions, core, clock }: { sessions: Sessions; core: CoreClient; clock: Clock }): AskPerson =>
  async (c, { returnTo, needsFresh }, then) => {
    const toSignIn = (
      code: "unauthenticated" | "fresh_sign_in_required",
      detail?: string,
    ): Response => {
      const reason = code === "unauthenticated" ? {} : { reason: "sign_in_again" as const };
      const path = loginPath({ returnTo: localPath(returnTo), ...reason });
      if (c.req.method === "GET") return c.redirect(path, 302);
      throw new WebProblem(code, {
        ...(detail === undefined ? {} : { detail }),
        extensions: { sign_in: path },
      });
    };
    const state = await sessions.read(c.req.header("cookie"));
    if (state.kind !== "valid") return toSignIn("unauthenticated");
    const { session } = state;
    if (needsFresh && !isFresh(session, clock.now())) return toSignIn("fresh_sign_in_required");
    const person = await core.whoami(session, c.get("requestId"));
    if (person === null)
      return toSignIn("unauthenticated", (await endSession(c, sessions)).options.detail);
    return then({
      session,
      displayName: session.displayName,
      email: person.email,
      scopes: person.scopes,
    });
  };

/**
 * Calls core as a person, with JSON. Returns the parsed answer, undefined for one without a body, and null for 404. Throws 401
 * `unauthenticated` when core rejects the person, 503 `core_unavailable` or `database_unavailable` for any other failure.
 */
export const callCore = async (
  core: CoreClient,
  c: WebContext,
  { path, session, body }: { path: string; session: WebSession; body?: object },
): Promise<unknown> => {
  const response = await core.call({
    path,
    as: session,
    requestId: c.get("requestId"),
    ...(body && { method: "POST", json: body }),
  });
  if (response.status === 404 || response.status === 204) {
    await response.body?.cancel();
    return response.status === 404 ? null : undefined;
  }
  if (response.status === 401) throw new WebProblem("unauthenticated", { detail: "Sign in again" });
  if (!response.ok) throw await coreProblem(response, path);
  return response.json();
};
