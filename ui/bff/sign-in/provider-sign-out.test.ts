import { decodeJwt } from "jose";
import { describe, expect, it } from "vitest";
import { people } from "#scripts/lab/people.ts";
import { createUserAgent, type UserAgent } from "#scripts/lab/user-agent.ts";
import { walkSignIn } from "#scripts/lab/walk-sign-in.ts";
import { consentPath, redemptionOf } from "#tests/support/consent-request.ts";
import { useTestWeb } from "#tests/support/web.ts";
import { createProvider } from "./provider.ts";
import { createProviderSignOut } from "./provider-sign-out.ts";

/* Signing out at web and at a real identity provider: each ends the session of the other. */

const web = await useTestWeb();
const { origin, identityProvider } = web;
const form = { Origin: origin, "Content-Type": "application/x-www-form-urlencoded" };

/** Signs out at web. Returns the response, and the address that the browser goes to next. */
const signOut = async (agent: UserAgent) => {
  const sent = { method: "POST", headers: form, body: "" };
  const answer = await agent.fetch(`${origin}/api/auth/logout`, sent);
  return { answer, next: new URL((answer.headers.get("refresh") ?? "").replace("0; url=", "")) };
};
/** Opens the provider's page of a sign-out and presses one of its buttons. */
const confirm = async (agent: UserAgent, url: string, { everywhere }: { everywhere: boolean }) => {
  const { text } = await agent.visit(url);
  const [, action = "", xsrf = ""] = /action="([^"]+)".*value="([^"]+)"/.exec(text) ?? [];
  const body = new URLSearchParams({ xsrf, ...(everywhere ? { logout: "yes" } : {}) });
  return agent.visit(action, { method: "POST", body });
};
const begin = async (agent: UserAgent) =>
  (await agent.visit(`${origin}/api/auth/login`)).url.pathname;

describe("signing out at web", () => {
  it("leads to the provider, which ends its own session and redirects back", async () => {
    const agent = await web.signIn("admin");
    const { answer, next } = await signOut(agent);
    expect([answer.status, agent.cookie("svc_session")]).toEqual([200, undefined]);
    expect(await answer.text()).toContain("Continue to Example ID");
    expect(next.origin + next.pathname).toBe(`${identityProvider.issuer}/session/end`);
    const { id_token_hint = "", ...parameters } = Object.fromEntries(next.searchParams);
    expect(decodeJwt(id_token_hint)).toMatchObject({
      sub: people.admin.subject,
      aud: identityProvider.clientId,
    });
    const state = expect.stringMatching(/^[\w-]{43}$/);
    expect(parameters).toEqual({ post_logout_redirect_uri: `${origin}/login`, state });
    const { url, text } = await confirm(agent, next.href, { everywhere: true });
    expect(url.href).toBe(`${origin}/login?state=${parameters.state}`);
    expect(text).toContain("was asked to sign you out there too");
    expect(await begin(agent)).toMatch(/^\/interaction\//);
  });

  it("returns as well for a person who stays signed in at the provider", async () => {
    const agent = await web.signIn("admin");
    const { url } = await confirm(agent, (await signOut(agent)).next.href, { everywhere: false });
    expect(url.pathname).toBe("/login");
    expect((await agent.fetch(`${origin}/api/session`)).status).toBe(401);
  });

  it("A7: keeps the id_token in a cookie that no script reads, with the prefix __Secure- on https", () => {
    const config = { ...web.web.config, secure: true };
    const { keep } = createProviderSignOut(config, {
      provider: createProvider(web.web),
      entropy: web.web.entropy,
    });
    expect(keep("a.b.c").split("; ").sort().join("; ")).toBe(
      "HttpOnly; Max-Age=1800; Path=/api/auth/logout; SameSite=Lax; Secure; __Secure-svc_id_token=a.b.c",
    );
    expect(keep("a".repeat(3801))).toContain("Max-Age=0");
  });

  it("sends the id_token with the sign-out alone, and no hint without one", async () => {
    const agent = await web.signIn("reader");
    expect(agent.cookieHeader(`${origin}/api/auth/logout`)).toContain("svc_id_token=");
    for (const path of ["/", "/api/session", "/api/auth/login"])
      expect(agent.cookieHeader(`${origin}${path}`)).not.toContain("svc_id_token");
    await signOut(agent);
    const { next } = await signOut(agent);
    expect(next.searchParams.get("id_token_hint")).toBeNull();
    expect(next.searchParams.get("client_id")).toBe(identityProvider.clientId);
  });

  it("is not reported by a redirect that this browser did not cause", async () => {
    const agent = createUserAgent();
    await signOut(agent);
    for (const state of ["", "x".repeat(43)])
      expect((await agent.visit(`${origin}/login?state=${state}`)).text).not.toContain(
        "signed out",
      );
  });
});

/** Lets a program in and returns its token. */
const letIn = async (agent: UserAgent): Promise<string> => {
  const sent = { method: "POST", headers: form, body: "decision=allow" };
  const allowed = await agent.fetch(`${origin}${consentPath()}`, sent);
  const code = new URL(allowed.headers.get("location") ?? "").searchParams.get("code") ?? "";
  const body = new URLSearchParams(redemptionOf(code));
  const answer = await fetch(`${origin}/oauth/token`, { method: "POST", body });
  return ((await answer.json()) as { access_token: string }).access_token;
};

it("signing out at the provider ends every session at web of that browser, with its programs, at every web, and no other person's", async () => {
  const agent = await web.signIn("admin");
  const replaced = agent.cookieHeader(origin);
  const program = await letIn(agent);
  await walkSignIn(agent, { origin, account: people.admin.subject });
  const another = await web.signIn("admin");
  const person = await web.signIn("reader");
  const second = web.appWith();
  const statuses = async () => {
    const cookies = [replaced, ...[agent, another, person].map((one) => one.cookieHeader(origin))];
    const sessions = cookies.map((Cookie) =>
      second.request(`${origin}/api/session`, { headers: { Cookie } }),
    );
    const whoami = fetch(`${origin}/v1/whoami`, {
      headers: { Authorization: `Bearer ${program}` },
    });
    return (await Promise.all([...sessions, whoami])).map(({ status }) => status);
  };
  expect(await statuses()).toEqual([200, 200, 200, 200, 200]);
  await web.clock.advance(1000);
  await confirm(agent, `${identityProvider.issuer}/session/end`, { everywhere: true });
  expect(await statuses()).toEqual([401, 401, 200, 200, 401]);
  const events = await web.core.events("action=operator.sign_out&limit=2");
  const event = {
    actor: { id: "identity-provider" },
    target: { id: people.admin.userId },
    outcome: "success",
  };
  expect(events).toMatchObject([event, event]);
  expect(events.map(({ details }) => details)).toEqual(
    expect.arrayContaining([{ programs: 1 }, { programs: 0 }]),
  );
  expect(web.log.text()).toContain("signed out by the identity provider");
});
