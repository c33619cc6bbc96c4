import { html } from "hono/html";
import { rfc3339 } from "#kit/clock.ts";
import { formMediaType } from "#kit/form.ts";
import type { CoreClient } from "../core-client.ts";
import { createRefusalLimit } from "../limit-address.ts";
import { product, showCard } from "../page-frame.ts";
import { WebProblem } from "../problems.ts";
import { bodyMediaTypeOf, queryOf } from "../read-request.ts";
import { setCookies, type WebContext } from "../request.ts";
import type { Sessions, WebSession } from "../session.ts";
import type { Web } from "../web.ts";
import { createAttempts } from "./attempt.ts";
import { createAuthorizationCode } from "./authorization-code.ts";
import { createBackchannelLogout } from "./backchannel-logout.ts";
import { createExchanges, createGate } from "./complete.ts";
import { maxAgeSeconds, needsFreshSignIn } from "./fresh-sign-in.ts";
import { localPath } from "./local-path.ts";
import { createProvider } from "./provider.ts";
import { createProviderSignOut } from "./provider-sign-out.ts";
import { type RefusalPart, type RefusalReason, SignInRefusal } from "./refusal.ts";
import { createReportSignOut } from "./sign-outs.ts";

interface SignInParts {
  sessions: Sessions;
  core: CoreClient;
  isStopping(): boolean;
}

/** Creates the sign-in with `IDP_ISSUER`. A refusal redirects to `/login` with the reason and the request id. */
export const createSignIn = (web: Web, { sessions, core, isStopping }: SignInParts) => {
  const { config, log } = web;
  const provider = createProvider(web);
  const flow = createAuthorizationCode(web);
  const attempts = createAttempts(web);
  const reportSignOut = createReportSignOut(web, isStopping);
  const providerSignOut = createProviderSignOut(config, { provider, entropy: web.entropy });
  const refusals = createRefusalLimit(web.clock);
  const gate = createGate({ ...web, provider, flow, exchanges: createExchanges() });

  const refused = async (
    c: WebContext,
    refusal: SignInRefusal,
    returnTo: string,
  ): Promise<Response> => {
    const requestId = c.get("requestId");
    const { reason, part, person, cause } = refusal;
    log.warn(
      { request_id: requestId, reason, part, user_id: person?.userId ?? null, err: cause },
      "sign-in refused",
    );
    if (person !== null) {
      const { userId: user_id, subject } = person;
      const remote_addr = c.get("remoteAddress");
      const record = { outcome: "failure", reason_code: reason, user_id, subject, remote_addr };
      await core.report("sign-ins", record, { requestId }).catch((err: unknown) => {
        log.error({ request_id: requestId, err }, "the refused sign-in could not be audited");
      });
    }
    return c.redirect(loginPath({ reason, part, id: requestId, returnTo }), 303);
  };

  return {
    /**
     * `GET /api/auth/login?return_to=&prompt=`: redirects to the provider. With `prompt=select_account` the person can change accounts; with
     * `prompt=login`, or for a page that lets a program in, the provider authenticates them again.
     */
    begin: async (c: WebContext) => {
      const query = queryOf(c);
      const returnTo = localPath(query.get("return_to") ?? undefined);
      try {
        const { authorizationEndpoint, prompts: supported } = await provider.metadata();
        const prompt = query.get("prompt");
        const isFresh = prompt === "login" || needsFreshSignIn(returnTo);
        const isOtherAccount = prompt === "select_account";
        const isChoice = isOtherAccount && supported.includes("select_account");
        // Keycloak has no select_account: `login` lets a person choose an account as well.
        const wanted = {
          login: isFresh || (isOtherAccount && !isChoice),
          select_account: isChoice,
        };
        const prompts = (["login", "select_account"] as const).filter(
          (name) => wanted[name] && supported.includes(name),
        );
        const cookieHeader = c.req.header("cookie");
        const { attempt, cookies } = await attempts.begin(returnTo, cookieHeader, isFresh);
        setCookies(c, cookies);
        return c.redirect(
          flow.url(authorizationEndpoint, attempt, {
            prompts,
            maxAgeSeconds: isFresh ? maxAgeSeconds : undefined,
          }).href,
          302,
        );
      } catch (cause) {
        return refused(
          c,
          new SignInRefusal("sign_in_unavailable", { cause, part: "identity_provider" }),
          returnTo,
        );
      }
    },
    /** `GET /api/auth/callback/idp`: the provider's redirect; admits or refuses the person. */
    complete: async (c: WebContext) => {
      const response = queryOf(c);
      const state = response.get("state");
      const attempt = await attempts.resume(state, c.req.header("cookie"));
      setCookies(c, attempts.end(state));
      const returnTo = attempt?.returnTo ?? "/";
      try {
        const person = await gate(response, attempt, c.get("remoteAddress"));
        const requestId = c.get("requestId");
        const { userId, providerSessionId, idToken } = person;
        const { cookie, session } = await sessions.issue(person, c.req.header("cookie"));
        const record = {
          outcome: "success",
          remote_addr: c.get("remoteAddress"),
          session: {
            id: session.id,
            expires_at: rfc3339(session.expiresAt * 1000),
            provider_session_id: providerSessionId,
          },
        };
        // Core reports a wrong clock only for a token that names a session; it rejects any other as too old.
        const as = { ...session, userId };
        // A session needs an audit event.
        await core.report("sign-ins", record, { requestId, as }).catch((cause: unknown) => {
          const code = cause instanceof WebProblem ? cause.code : "";
          // Its page names both clocks; a retry would not help.
          if (code === "clock_skew") throw cause;
          const part = code === "database_unavailable" ? "database" : "core";
          throw new SignInRefusal("sign_in_unavailable", { cause, part });
        });
        setCookies(c, [cookie, providerSignOut.keep(idToken)]);
        log.info({ request_id: requestId, user_id: userId }, "signed in");
        return c.redirect(returnTo, 303);
      } catch (error) {
        if (error instanceof SignInRefusal) return refused(c, error, returnTo);
        throw error;
      }
    },
    /**
     * `POST /api/auth/logout`: ends the session in this browser, and at every web for any copy of its cookie. A form then leads to the
     * provider, to sign out there too.
     */
    end: async (c: WebContext) => {
      const state = await sessions.read(c.req.header("cookie"));
      c.header("Set-Cookie", await sessions.end(c.req.header("cookie")));
      const remote_addr = c.get("remoteAddress");
      const requestId = c.get("requestId");
      if (state.kind === "valid") {
        const { session } = state;
        const ended = [
          session,
          ...session.replaced.map((replaced) => ({ ...session, ...replaced })),
        ];
        const report = ({ id, userId, expiresAt }: WebSession) => {
          const expires_at = rfc3339(expiresAt * 1000);
          const body = { session_id: id, user_id: userId, expires_at, remote_addr };
          const record = () => core.report("sign-outs", body, { requestId });
          return reportSignOut(record, { key: id, requestId, expiresAt });
        };
        // All have ended in this process; `reportSignOut` retries those that core has not confirmed.
        await Promise.allSettled(ended.map(report));
      }
      // A form needs a page; a script does not.
      if (bodyMediaTypeOf(c) !== formMediaType) return c.body(null, 204);
      const atProvider = await providerSignOut.begin(c.req.header("cookie"));
      if (atProvider === null) return c.redirect(loginPath({ reason: "signed_out" }), 303);
      const { url, cookies } = atProvider;
      setCookies(c, cookies);
      // A page instead of a redirect: browsers apply the policy `form-action` to redirects, and the provider may redirect further.
      c.header("Refresh", `0; url=${url.href}`);
      return showSignOut(c, config.identityProvider.name, url.href);
    },
    /** `POST /api/auth/backchannel-logout`: the provider's report that a person signed out there. */
    endByProvider: createBackchannelLogout(web, { provider, core, refusals, reportSignOut }),
  };
};

/** Shows the page after a sign-out that leads to the identity provider: `url` ends the session there. */
const showSignOut = (c: WebContext, providerName: string, url: string) => {
  const card = html`<h1>${product}</h1>
<div class="login-notice" role="status">
<h2>You are signed out</h2>
<p>${providerName} signs you out there too.</p>
</div>
<a class="button button-primary login-button" href="${url}">Continue to ${providerName}</a>`;
  return showCard(c, "Sign out", card);
};

/** Returns the address of the sign-in page with a message and a return address. */
export const loginPath = (query: {
  reason?: RefusalReason | "session_expired" | "signed_out" | "sign_in_again";
  part?: RefusalPart | null;
  id?: string;
  returnTo?: string;
}): string => {
  const parameters = new URLSearchParams();
  if (query.reason !== undefined) parameters.set("reason", query.reason);
  if (query.part) parameters.set("part", query.part);
  if (query.id !== undefined) parameters.set("id", query.id);
  if (query.returnTo !== undefined && query.returnTo !== "/")
    parameters.set("return_to", query.returnTo);
  return parameters.size === 0 ? "/login" : `/login?${parameters}`;
};
