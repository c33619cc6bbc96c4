import type { CoreClient } from "../core-client.ts";
import { WebProblem } from "../problems.ts";
import type { WebContext } from "../request.ts";
import type { Sessions, WebSession } from "../session.ts";
import { localPath } from "../sign-in/local-path.ts";
import { loginPath } from "../sign-in/routes.ts";
import { endSession } from "../signed-in.ts";
import type { Consenting } from "./consent-pages.ts";

/** The person of a page, as core reports them now. */
export type PersonOfPage = Consenting & { session: WebSession };

/** Calls `then` with the person who is signed in; redirects to the sign-in page, and back, without a session or when core has ended it. */
export type AskPerson = (c: WebContext, then: (person: PersonOfPage) => Promise<Response>) => Promise<Response>;

/** Creates it. A form without a session answers 401: its decision must not be repeated by a redirect. */
export const createAskPerson =
  ({ sessions, core }: { sessions: Sessions; core: CoreClient }): AskPerson =>
  async (c, then) => {
    const toSignIn = () => {
      const { pathname, search } = new URL(c.req.url);
      return c.redirect(loginPath({ returnTo: localPath(`${pathname}${search}`) }), 302);
    };
    const state = await sessions.read(c.req.header("cookie"));
    if (state.kind !== "valid") {
      if (c.req.method !== "GET") throw new WebProblem("unauthenticated");
      return toSignIn();
    }
    const { session } = state;
    const person = await core.whoami(session, c.get("requestId"));
    if (person === null) {
      const refusal = await endSession(c, sessions);
      if (c.req.method !== "GET") throw refusal;
      return toSignIn();
    }
    return then({ session, displayName: session.displayName, email: person.email, scopes: person.scopes });
  };
