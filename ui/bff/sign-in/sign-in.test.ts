import { eq } from "drizzle-orm";
import { describe, expect, it } from "vitest";
import { authenticationIdentity, person } from "#drizzle/schema/operator.ts";
import { people } from "#scripts/lab/people.ts";
import { createUserAgent, type UserAgent } from "#scripts/lab/user-agent.ts";
import { walkSignIn } from "#scripts/lab/walk-sign-in.ts";
import { useTestWeb } from "#tests/support/web.ts";
import type { Web } from "../web.ts";

const web = await useTestWeb();
const { origin } = web;

const latestSignIn = () => web.core.lastEvent("action=operator.sign_in");
const form = { Origin: origin, "Content-Type": "application/x-www-form-urlencoded" };
const signOut = { method: "POST", headers: form, body: "" };
const reader = { origin, account: people.reader.subject };
const sessionOf = async (agent: UserAgent) =>
  JSON.parse((await agent.visit(`${origin}/api/session`)).text);
const setStatus = (status: typeof person.$inferInsert.status) =>
  web.core.db.update(person).set({ status }).where(eq(person.userId, people.reader.userId));

describe("signing in", () => {
  it.each([
    ["admin", ["read", "audit", "admin"]],
    ["auditor", ["read", "audit"]],
    ["reader", ["read"]],
  ] as const)(
    "as %s leads to the requested page, with a session that core accepts",
    async (name, scopes) => {
      const agent = createUserAgent();
      const account = people[name].subject;
      const returnTo = "/fleet?state=stale&q=a%20b";
      const { url, status, text } = await walkSignIn(agent, { origin, account, returnTo });
      expect({ at: url.pathname + url.search, status }).toEqual({ at: returnTo, status: 200 });
      expect(text).toContain("<div id=root>");
      expect(await sessionOf(agent)).toEqual({
        user: {
          user_id: people[name].userId,
          email: people[name].email,
          display_name: people[name].displayName,
        },
        scopes,
        expires_at: new Date(Math.floor(web.clock.now() / 1000) * 1000 + 1_800_000).toISOString(),
        expires_in_seconds: 1800,
        chat_enabled: true,
        provider_name: "Example ID",
      });
      expect(await latestSignIn()).toMatchObject({
        actor: { type: "operator", id: people[name].userId },
        outcome: "success",
        remote_addr: "127.0.0.1",
      });
    },
  );

  it("A2: issues a new session each time, whatever cookie the browser sent", async () => {
    const planted = (await web.sessionOf("admin")).value;
    const agent = createUserAgent();
    agent.plant(origin, `svc_session=${planted}; Path=/`);
    await walkSignIn(agent, reader);
    const first = agent.cookie("svc_session");
    expect(first).not.toBe(planted);
    expect((await sessionOf(agent)).user.email).toBe(people.reader.email);
    await walkSignIn(agent, reader);
    expect(agent.cookie("svc_session")).not.toBe(first);
  });

  it("logs no secret", async () => {
    const agent = await web.signIn("admin");
    const log = `${web.log.text()}${web.core.log.text()}`;
    const secrets = [
      agent.cookie("svc_session") ?? "",
      web.identityProvider.clientSecret,
      web.web.config.sessionSecrets.secret.reveal(),
      web.web.config.authTokenSecret.reveal(),
      "code=",
      "eyJ",
    ];
    expect(secrets.filter((secret) => log.includes(secret))).toEqual([]);
    const signedIn = web.log.lines.filter(({ message }) => message === "signed in");
    expect(signedIn.at(-1)?.fields).toMatchObject({ user_id: people.admin.userId });
  });
});

describe("the sign-in gate", () => {
  /** Signs in as the reader and returns the final page. */
  const attempt = async () => {
    // Earlier tests signed in as well.
    await web.clock.advance(1);
    const agent = createUserAgent();
    const { url, text } = await walkSignIn(agent, { ...reader, returnTo: "/fleet" });
    expect(agent.cookie("svc_session")).toBeUndefined();
    return { text, ...Object.fromEntries(url.searchParams) } as Record<string, string>;
  };

  it.each([
    ["suspended", "Your account is suspended"],
    ["archived", "Your account is archived"],
    ["unverified", "Your email address is not verified"],
    ["absent", "You are no longer in the directory"],
  ] as const)(
    "refuses a person who is %s with the reason, and audits it",
    async (status, words) => {
      await setStatus(status);
      const { reason, id, text } = await attempt();
      await setStatus("active");
      expect(reason).toBe(status);
      for (const shown of [
        `role="alert"`,
        words,
        `<code>${id}</code>`,
        'href="/api/auth/login?return_to=%2Ffleet&amp;prompt=select_account"',
      ])
        expect(text).toContain(shown);
      expect(await latestSignIn()).toMatchObject({
        actor: { type: "system", id: "web" },
        target: { type: "person", id: people.reader.userId },
        outcome: "failure",
        reason_code: status,
        remote_addr: "127.0.0.1",
        request_id: id,
        details: { subject: people.reader.subject },
      });
    },
  );

  it("refuses a person who is not in this deployment's directory", async () => {
    const moveTo = (tenantId: string) =>
      web.core.db
        .update(authenticationIdentity)
        .set({ tenantId })
        .where(eq(authenticationIdentity.subject, people.reader.subject));
    await moveTo("01920000-0000-7000-8000-0000000000ff");
    const { reason, text } = await attempt();
    await moveTo(web.core.config.tenantId);
    expect(reason).toBe("not_in_directory");
    expect(text).toContain("You are not in the directory");
    expect(await latestSignIn()).toMatchObject({
      outcome: "failure",
      reason_code: "not_in_directory",
      target: { id: "" },
      details: { subject: people.reader.subject },
    });
  });

  it("reports a cancelled sign-in", async () => {
    const { url, text } = await walkSignIn(createUserAgent(), { origin, account: "cancel" });
    expect(url.searchParams.get("reason")).toBe("sign_in_cancelled");
    expect(text).toContain("You did not sign in");
    expect(text).toContain('href="/api/auth/login?prompt=select_account"');
  });

  it("does not audit a callback that anyone can forge without the provider", async () => {
    const before = await latestSignIn();
    await createUserAgent().visit(`${origin}/api/auth/callback/idp?code=x&state=y`);
    expect((await latestSignIn())?.id).toBe(before?.id);
  });
});

describe("the choice of account", () => {
  /** Follows the link of a sign-in page and chooses an account; returns the address of the person who is signed in then. */
  const chooseAfter = async (agent: UserAgent, page: string, account: string) => {
    const link = /href="(\/api\/auth\/login[^"]*)"/.exec(page)?.[1]?.replaceAll("&amp;", "&") ?? "";
    const { url } = await agent.visit(`${origin}${link}`);
    expect(url.pathname).toMatch(/^\/interaction\//);
    await agent.visit(url.href, { method: "POST", body: new URLSearchParams({ account }) });
    return (await sessionOf(agent)).user.email;
  };

  it("W6: is offered after a refusal by a provider that has no select_account, as Keycloak has none", async () => {
    const prompt_values_supported = ["none", "login", "consent"];
    const likeKeycloak: Web["fetch"] = async (url, init) => {
      const answer = await web.web.fetch(url, init);
      if (!url.endsWith("/.well-known/openid-configuration")) return answer;
      return Response.json({ ...(await answer.json()), prompt_values_supported });
    };
    const app = web.appWith({ fetch: likeKeycloak });
    const agent = createUserAgent(async (url, init) =>
      url.startsWith(origin) ? app.fetch(new Request(url, init), {}) : fetch(url, init),
    );
    await setStatus("suspended");
    const refused = await walkSignIn(agent, reader);
    await setStatus("active");
    expect(refused.url.searchParams.get("reason")).toBe("suspended");
    expect(await chooseAfter(agent, refused.text, people.auditor.subject)).toBe(
      people.auditor.email,
    );
  });

  it("is offered after a sign-out or a refusal", async () => {
    const agent = await web.signIn("admin");
    const again = await agent.visit(`${origin}/api/auth/login`);
    expect(again.url.pathname).toBe("/");
    await agent.fetch(`${origin}/api/auth/logout`, signOut);
    const out = await agent.visit(`${origin}/login?reason=signed_out`);
    expect(await chooseAfter(agent, out.text, people.reader.subject)).toBe(people.reader.email);
  });
});

describe("a session", () => {
  it("ends after SESSION_TTL, also while in use, and the page reports it", async () => {
    const agent = await web.signIn("auditor");
    const session = () => agent.visit(`${origin}/api/session`);
    await web.clock.advance(1_799_000);
    expect((await session()).status).toBe(200);
    await web.clock.advance(1000);
    const { status, text } = await session();
    expect(status).toBe(401);
    expect(JSON.parse(text)).toMatchObject({ code: "unauthenticated" });
    const page = await agent.visit(`${origin}/fleet?q=x`, { headers: { Accept: "text/html" } });
    expect(page.url.pathname + page.url.search).toBe(
      "/login?reason=session_expired&return_to=%2Ffleet%3Fq%3Dx",
    );
    expect(page.text).toContain("Your session has ended");
    expect(page.text).toContain('role="status"');
  });

  it("A3: is rejected and ended at the next request after the person is suspended", async () => {
    for (const path of ["/api/session", "/api/core/whoami"]) {
      const agent = await web.signIn("reader");
      await setStatus("suspended");
      const { status, text } = await agent.visit(`${origin}${path}`);
      await setStatus("active");
      expect(status).toBe(401);
      expect(JSON.parse(text)).toMatchObject({ code: "unauthenticated" });
      expect(agent.cookie("svc_session")).toBeUndefined();
    }
  });

  it("ends with a sign-out by a script or a form", async () => {
    const agent = await web.signIn("reader");
    const headers = { Origin: origin, "Content-Type": "application/json" };
    const script = { method: "POST", headers, body: "{}" };
    const byScript = await agent.fetch(`${origin}/api/auth/logout`, script);
    expect([byScript.status, agent.cookie("svc_session")]).toEqual([204, undefined]);
    const other = await web.signIn("reader");
    const byForm = await other.visit(`${origin}/api/auth/logout`, signOut);
    expect([byForm.status, other.cookie("svc_session")]).toEqual([200, undefined]);
    expect(byForm.text).toContain("You are signed out");
  });
});
