import { beforeEach, describe, expect, it } from "vitest";
import { people } from "#scripts/lab/people.ts";
import { createUserAgent, type UserAgent } from "#scripts/lab/user-agent.ts";
import { consentPath, redemptionOf } from "#tests/support/consent-request.ts";
import { startTamperedWeb } from "#tests/support/tampered-web.ts";

/* Who may let a program in, and how long it stays in: a session at web bounds the sessions of its programs. */

const { provider, web, pass, now, begin } = await startTamperedWeb();
const { origin } = web;
beforeEach(async () => {
  provider.tampering = {};
  // A later second: sessions and events of one test are none of another's.
  await pass(1000);
});

const asked = consentPath();

/** Signs in, from the page `returnTo`. Returns the address that the provider received, and where web then redirects to. */
const signIn = async (agent: UserAgent, returnTo = asked, prompt = "") => {
  const query = new URLSearchParams({ return_to: returnTo, prompt });
  const begun = await begin(agent, `?${query}`);
  const { headers } = await agent.fetch(begun.back.href);
  return { asked: begun.asked, location: headers.get("location") };
};
const signedIn = async () => {
  const agent = createUserAgent();
  await signIn(agent);
  return agent;
};
const open = (agent: UserAgent, path = asked) =>
  agent.fetch(`${origin}${path}`, { headers: { Accept: "text/html" } });
const post = (agent: UserAgent, path: string, fields: Record<string, string>) =>
  agent.fetch(`${origin}${path}`, {
    method: "POST",
    body: new URLSearchParams(fields),
    headers: { Origin: origin, Accept: "text/html" },
  });
const allow = (agent: UserAgent) => post(agent, asked, { decision: "allow" });
const codeOf = (answer: Response) =>
  new URL(answer.headers.get("location") ?? "").searchParams.get("code") ?? "";
const token = async (fields: Record<string, string>) => {
  const body = new URLSearchParams(fields);
  const answer = await fetch(`${origin}/oauth/token`, { method: "POST", body });
  return await answer.json();
};
const redeem = (code: string) => token(redemptionOf(code));
/** Lets a program in and returns its token. */
const letIn = async (agent: UserAgent) => redeem(codeOf(await allow(agent)));
const whoami = async ({ access_token }: { access_token: string }) =>
  (await fetch(`${origin}/v1/whoami`, { headers: { Authorization: `Bearer ${access_token}` } }))
    .status;
const signOut = async (agent: UserAgent) => {
  const headers = { Origin: origin, "Content-Type": "application/json" };
  const sent = { method: "POST", headers, body: "{}" };
  expect((await agent.fetch(`${origin}/api/auth/logout`, sent)).status).toBe(204);
};
const lastEvent = (action: string) => web.core.lastEvent(`action=${action}`);

describe("a program that a person let in", () => {
  it("is out with the sign-out of the session in which they did, and the audit log says how many were", async () => {
    const agent = await signedIn();
    const other = await signedIn();
    const program = await letIn(agent);
    const untouched = await letIn(other);
    expect([await whoami(program), await whoami(untouched)]).toEqual([200, 200]);
    await signOut(agent);
    expect([await whoami(program), await whoami(untouched)]).toEqual([401, 200]);
    expect(await lastEvent("operator.sign_out")).toMatchObject({ details: { programs: 1 } });
    const path = "/v1/operator/sessions?limit=2";
    const { items } = await web.core.admin.read<{ items: { state: string }[] }>(path);
    expect(items.map(({ state }) => state).sort()).toEqual(["active", "revoked"]);
  });

  it("is out when that session expires, also on a machine without a browser", async () => {
    const agent = await signedIn();
    await pass(240_000);
    const body = new URLSearchParams({ client_name: "svc-admin on build-7" });
    const begun = await fetch(`${origin}/oauth/device_authorization`, { method: "POST", body });
    const codes = await begun.json();
    await post(agent, `/device?user_code=${codes.user_code}`, { decision: "allow" });
    await pass(60_000);
    const grant_type = "urn:ietf:params:oauth:grant-type:device_code";
    const program = await token({ grant_type, device_code: codes.device_code });
    expect(program.expires_in).toBe(1500);
    await pass(1_499_000);
    expect(await whoami(program)).toBe(200);
    await pass(1_000);
    expect(await whoami(program)).toBe(401);
  });

  it("does not get in with a code of a session that has ended since, which is audited", async () => {
    const agent = await signedIn();
    const code = codeOf(await allow(agent));
    await signOut(agent);
    expect(await redeem(code)).toMatchObject({ error: "invalid_grant" });
    expect(await lastEvent("operator_session.refuse")).toMatchObject({
      reason_code: "web_session_ended",
      actor: { id: people.admin.userId },
    });
  });

  it("is out with a sign-out in the browser that has signed in again since", async () => {
    const agent = await signedIn();
    const stolen = agent.cookieHeader(origin);
    const first = await letIn(agent);
    await pass(400_000);
    await signIn(agent);
    const second = await letIn(agent);
    expect([await whoami(first), await whoami(second)]).toEqual([200, 200]);
    await signOut(agent);
    expect([await whoami(first), await whoami(second)]).toEqual([401, 401]);
    const copied = await fetch(`${origin}/api/session`, { headers: { Cookie: stolen } });
    expect(copied.status).toBe(401);
  });
});

describe("the consent of a person", () => {
  it("needs a sign-in of the last five minutes: the page leads to one, and the form does nothing", async () => {
    const agent = await signedIn();
    await pass(299_000);
    expect((await open(agent)).status).toBe(200);
    expect((await open(agent, "/device")).status).toBe(200);
    await pass(2_000);
    for (const path of [asked, "/device?user_code=BCDF-BCDF"]) {
      const answer = await open(agent, path);
      const query = new URLSearchParams({ reason: "sign_in_again", return_to: path });
      expect([answer.status, answer.headers.get("location")]).toEqual([302, `/login?${query}`]);
    }
    const page = await (await open(agent, "/login?reason=sign_in_again")).text();
    expect(page).toContain("Confirm that it is you");
    expect(page).not.toContain("Return with your present session");
    // As a browser does: fetch says of itself that it is a script.
    const refused = await web.app.request(`${origin}${asked}`, {
      method: "POST",
      body: new URLSearchParams({ decision: "allow" }),
      headers: { Origin: origin, Cookie: agent.cookieHeader(origin), "Sec-Fetch-Mode": "navigate" },
    });
    const text = await refused.text();
    expect([refused.status, refused.headers.get("location")]).toEqual([403, null]);
    expect(text).toContain("Confirm that it is you");
    const back = /<a [^>]*href="([^"]+)">Sign in</.exec(text)?.[1]?.replaceAll("&amp;", "&") ?? "";
    expect(new URL(back, origin).searchParams.get("return_to")).toBe(asked);
    expect((await open(agent, "/device")).status).toBe(200);
  });

  it("is asked for after the provider was asked for a fresh sign-in, as a page's form may be", async () => {
    const agent = createUserAgent();
    for (const path of [asked, "/device", "/device?user_code=a"])
      expect((await signIn(agent, path)).asked.get("max_age")).toBe("60");
    expect((await signIn(agent, "/fleet")).asked.get("max_age")).toBeNull();
    expect((await signIn(agent, "/fleet", "login")).asked.get("max_age")).toBe("60");
  });

  it("counts from when the provider authenticated the person, if it says", async () => {
    const seconds = () => Math.floor(now() / 1000);
    const agent = createUserAgent();
    provider.tampering = { claims: { auth_time: seconds() - 290 } };
    expect((await signIn(agent)).location).toBe(asked);
    await pass(20_000);
    expect((await open(agent)).status).toBe(302);
    provider.tampering = { claims: { auth_time: seconds() - 86_400 } };
    expect((await signIn(agent)).location).toMatch(/^\/login\?reason=sign_in_not_fresh&id=/);
    expect(await lastEvent("operator.sign_in")).toMatchObject({
      outcome: "failure",
      reason_code: "sign_in_not_fresh",
      target: { id: people.admin.userId },
    });
    const { location } = await signIn(agent, "/?take=a", "login");
    expect(location).toMatch(/^\/login\?reason=sign_in_not_fresh&id=.*&return_to=%2F%3Ftake%3Da$/);
    expect(await (await open(agent, location ?? "")).text()).toContain(
      "/api/auth/login?return_to=%2F%3Ftake%3Da&amp;prompt=login",
    );
    expect((await signIn(agent, "/fleet")).location).toBe("/fleet");
    expect((await open(agent)).status).toBe(302);
    provider.tampering = { claims: { auth_time: seconds() + 86_400 } };
    await signIn(agent);
    await pass(301_000);
    expect((await open(agent)).status).toBe(302);
  });

  it("spells out what could change the look of the program's name", async () => {
    const agent = await signedIn();
    const client_name = "svc-admin on \u202eevil\u2066 \u{e0041}";
    const page = await (await open(agent, consentPath({ client_name }))).text();
    expect(page).toContain("Sign in <bdi>svc-admin on [U+202E]evil[U+2066] [U+E0041]</bdi>?");
    expect(page).toContain(encodeURIComponent("\u202e"));
    expect(page).not.toMatch(/(?!\n)[\p{Cc}\p{Cf}]/u);
  });
});
