import type { CoreClient } from "../core-client.ts";
import type { Handler, WebContext } from "../request.ts";
import type { Sessions } from "../session.ts";
import type { Web } from "../web.ts";
import { createAskProvider } from "./ask-provider.ts";
import { createAttempts } from "./attempt.ts";
import { createAuthorizationCode } from "./authorization-code.ts";
import { createGate } from "./complete.ts";
import { createExchanges } from "./exchanges.ts";
import { localPath } from "./local-path.ts";
import { createProvider } from "./provider.ts";
import { Refusal, type RefusalReason } from "./refusal.ts";

/** What signs people in and out. */
export interface SignInRoutes {
  /** `GET /api/auth/login?return_to=&prompt=`: off to the provider; `prompt=select_account` lets people choose who to be. */
  begin: Handler;
  /** `GET /api/auth/callback/idp`: back from it, through the gate. */
  complete: Handler;
  /** `POST /api/auth/logout`: ends the session in this browser. */
  end: Handler;
}

/** Makes the sign-in over `IDP_ISSUER`. Who is refused lands on `/login` with the reason and the request's id. */
export const createSignIn = (web: Web, { sessions, core }: { sessions: Sessions; core: CoreClient }): SignInRoutes => {
  const { config, log } = web;
  const ask = createAskProvider(web);
  const provider = createProvider(web, ask);
  const flow = createAuthorizationCode(config, ask);
  const attempts = createAttempts(web);
  const gate = createGate({ ...web, provider, flow, exchanges: createExchanges() });

  const refused = async (c: WebContext, refusal: Refusal, returnTo: string): Promise<Response> => {
    const requestId = c.get("requestId");
    const { reason, person, cause } = refusal;
    log.warn({ request_id: requestId, reason, user_id: person?.userId ?? null, err: cause }, "sign-in refused");
    if (person !== null) {
      const record = {
        outcome: "failure",
        reasonCode: reason,
        remoteAddress: c.get("remoteAddress"),
        ...person,
      } as const;
      await core.recordSignIn(record, requestId).catch((err: unknown) => {
        log.error({ request_id: requestId, err }, "a refused sign-in could not be audited");
      });
    }
    return c.redirect(loginPath({ reason, id: requestId, returnTo }), 303);
  };

  return {
    begin: async (c) => {
      const returnTo = localPath(c.req.query("return_to"));
      try {
        const { authorizationEndpoint, takesSelectAccount } = await provider.metadata();
        const selectAccount = takesSelectAccount && c.req.query("prompt") === "select_account";
        const { attempt, cookies } = await attempts.begin(returnTo, c.req.header("cookie"));
        for (const cookie of cookies) c.header("Set-Cookie", cookie, { append: true });
        return c.redirect(flow.url(authorizationEndpoint, attempt, { selectAccount }).href, 302);
      } catch (cause) {
        return refused(c, new Refusal("sign_in_unavailable", { cause }), returnTo);
      }
    },
    complete: async (c) => {
      const answer = new URL(c.req.url).searchParams;
      const state = answer.get("state");
      const attempt = await attempts.resume(state, c.req.header("cookie"));
      for (const cookie of attempts.end(state)) c.header("Set-Cookie", cookie, { append: true });
      const returnTo = attempt?.returnTo ?? "/";
      try {
        const person = await gate(answer, attempt, c.get("remoteAddress"));
        const requestId = c.get("requestId");
        const { userId } = person;
        // Nobody gets a session that the audit log does not know of.
        await core
          .recordSignIn({ outcome: "success", userId, remoteAddress: c.get("remoteAddress") }, requestId)
          .catch((cause: unknown) => {
            throw new Refusal("sign_in_unavailable", { cause });
          });
        c.header("Set-Cookie", await sessions.issue(person), { append: true });
        log.info({ request_id: requestId, user_id: userId }, "signed in");
        return c.redirect(returnTo, 303);
      } catch (error) {
        if (error instanceof Refusal) return refused(c, error, returnTo);
        throw error;
      }
    },
    end: (c) => {
      c.header("Set-Cookie", sessions.end());
      // A form wants a page, a script only the deed.
      return c.req.header("content-type")?.startsWith("application/x-www-form-urlencoded")
        ? c.redirect(loginPath({ reason: "signed_out" }), 303)
        : c.body(null, 204);
    },
  };
};

/** The sign-in page with what it says and where it leads. */
export const loginPath = (query: {
  reason?: RefusalReason | "session_expired" | "signed_out";
  id?: string;
  returnTo?: string;
}): string => {
  const parameters = new URLSearchParams();
  if (query.reason !== undefined) parameters.set("reason", query.reason);
  if (query.id !== undefined) parameters.set("id", query.id);
  if (query.returnTo !== undefined && query.returnTo !== "/") parameters.set("return_to", query.returnTo);
  return parameters.size === 0 ? "/login" : `/login?${parameters}`;
};
