import { generateKeyPair, UnsecuredJWT } from "jose";
import { beforeEach, describe, expect, it } from "vitest";
import { people } from "#scripts/lab/people.ts";
import { createUserAgent, type UserAgent } from "#scripts/lab/user-agent.ts";
import { signedWith } from "#tests/fakes/tampering-provider.ts";
import { startTamperedWeb } from "#tests/support/tampered-web.ts";

/* Logout tokens that a real provider does not send (OpenID Connect Back-Channel Logout 1.0, 2.6). */

const { provider, web, pass, now, begin } = await startTamperedWeb();
const { origin } = web;
let isCoreAway = false;
let callsAway = 0;
const fetchCore: typeof web.web.fetch = (url, init) =>
  isCoreAway && url.startsWith(web.web.config.apiUrl)
    ? Promise.reject(new Error(`away ${++callsAway}`))
    : web.web.fetch(url, init);
let app = web.appWith({ fetch: fetchCore });
beforeEach(async () => {
  provider.tampering = {};
  isCoreAway = false;
  app = web.appWith({ fetch: fetchCore });
  sid = crypto.randomUUID();
  await pass(1000);
});

const event = "http://schemas.openid.net/event/backchannel-logout";
let tokens = 0;
/** A session at the provider, another one in each test. */
let sid = "";
/** Signs a logout token that is valid but for `claims`. */
const tokenWith = (
  claims: Record<string, unknown> = {},
  sign: (claims: Record<string, unknown>) => Promise<string> = provider.sign,
) => {
  const iat = Math.floor(now() / 1000);
  const usual = {
    iss: provider.issuer,
    aud: provider.clientId,
    iat,
    exp: iat + 120,
    jti: `token-${tokens++}`,
  };
  return sign({ ...usual, events: { [event]: {} }, sub: people.admin.subject, sid, ...claims });
};
const send = async (token: string, to: { request: typeof app.request | typeof fetch } = app) => {
  const body = new URLSearchParams({ logout_token: token });
  const answer = await to.request(`${origin}/api/auth/backchannel-logout`, {
    method: "POST",
    body,
  });
  const text = await answer.text();
  const problem = text === "" ? null : JSON.parse(text);
  return { answer, problem };
};
const statusOf = async (...sent: Parameters<typeof send>) => (await send(...sent)).answer.status;
/** Signs in, in a session at the provider. */
const signIn = async (session?: string) => {
  provider.tampering = { claims: { sid: session } };
  const agent = createUserAgent();
  await agent.fetch((await begin(agent)).back.href);
  return agent;
};
/** The newest audit events of sign-outs. */
const signOuts = (limit: number) => web.core.events(`action=operator.sign_out&limit=${limit}`);
const sessionOf = async (agent: UserAgent) => (await agent.fetch(`${origin}/api/session`)).status;

describe("a logout token", () => {
  it("ends the sessions of its sid, and those of its person that have none, with 200 and no-store", async () => {
    const named = await signIn(sid);
    const other = await signIn("another");
    const unnamed = await signIn();
    const { answer, problem } = await send(await tokenWith());
    expect([answer.status, problem]).toEqual([200, null]);
    expect(answer.headers.get("cache-control")).toBe("no-store");
    expect(await Promise.all([named, other, unnamed].map(sessionOf))).toEqual([401, 200, 401]);
  });

  it("without a sid ends every session of its person, and without a sub those of its sid alone", async () => {
    const first = await signIn("first");
    expect(await statusOf(await tokenWith({ sub: undefined, sid: "second" }))).toBe(200);
    const stranger = { sub: "100000000000000000099", sid: undefined };
    expect(await statusOf(await tokenWith(stranger))).toBe(200);
    expect(await sessionOf(first)).toBe(200);
    expect(await statusOf(await tokenWith({ sid: undefined }))).toBe(200);
    expect(await sessionOf(first)).toBe(401);
    expect(await sessionOf(await signIn("first"))).toBe(200);
  });

  it("ends a session whose sign-in web completes only now", async () => {
    expect(await statusOf(await tokenWith())).toBe(200);
    expect(await sessionOf(await signIn(sid))).toBe(401);
    await pass(181_000);
    expect(await sessionOf(await signIn(sid))).toBe(200);
  });

  it("is answered with 200 again, by any web, and ends no session that began since", async () => {
    const token = await tokenWith({ sid: undefined });
    const webs = [app, web.appWith({}, "192.0.2.10")];
    expect(await Promise.all(webs.map((each) => statusOf(token, each)))).toEqual([200, 200]);
    const agent = await signIn(sid);
    expect([await statusOf(token), await sessionOf(agent)]).toEqual([200, 200]);
  });

  it.each([
    ["for another session", 0, { sid: "another" }],
    ["for the same session, issued a second later", 1000, {}],
  ])(
    "with the jti of another one, %s, is refused, which is audited",
    async (_, laterMs, claims) => {
      const jti = crypto.randomUUID();
      expect(await statusOf(await tokenWith({ jti }))).toBe(200);
      const agent = await signIn();
      await pass(laterMs);
      const { problem } = await send(await tokenWith({ jti, ...claims }));
      expect(problem).toMatchObject({ code: "logout_token_replayed", error: "invalid_request" });
      expect(await sessionOf(agent)).toBe(200);
      await pass(1);
      expect((await signOuts(1))[0]).toMatchObject({
        outcome: "failure",
        reason_code: "logout_token_replayed",
      });
    },
  );

  const seconds = () => Math.floor(now() / 1000);
  const unsigned = "The logout token is not signed by the identity provider";
  /** What a claim is replaced by. */
  const claims: Record<string, readonly [claim: string, value: () => unknown]> = {
    "another iss": ["iss", () => "https://accounts.google.com"],
    "another aud": ["aud", () => "another-client"],
    "no iat": ["iat", () => undefined],
    "an iat in the future": ["iat", () => seconds() + 62],
    "no exp": ["exp", () => undefined],
    "an exp in the past": ["exp", () => seconds() - 61],
    "no jti": ["jti", () => undefined],
    "no events": ["events", () => undefined],
    "another event": ["events", () => ({ "http://schemas.openid.net/event/another": {} })],
    "an event that is no object": ["events", () => ({ [event]: true })],
    "a nonce": ["nonce", () => "a-nonce"],
    "a sid that is no text": ["sid", () => 7],
  };
  const faults: Record<string, readonly [token: () => Promise<string>, detail: string]> = {
    "no token": [async () => "", unsigned],
    "alg none": [() => tokenWith({}, async (of) => new UnsecuredJWT(of).encode()), unsigned],
    "another key": [
      async () => tokenWith({}, signedWith("ES256", (await generateKeyPair("ES256")).privateKey)),
      unsigned,
    ],
    "the client secret as key": [
      () => tokenWith({}, signedWith("HS256", provider.clientSecret.padEnd(32))),
      unsigned,
    ],
    "neither sub nor sid": [
      () => tokenWith({ sub: undefined, sid: undefined }),
      "The logout token names neither sub nor sid",
    ],
  };
  for (const [name, [claim, value]] of Object.entries(claims))
    faults[name] = [() => tokenWith({ [claim]: value() }), `The logout token's claim ${claim}`];

  it.each(Object.entries(faults))(
    "with %s is refused with 400, which says why, and ends nothing",
    async (_, fault) => {
      const agent = await signIn(sid);
      const [token, detail] = fault;
      const { answer, problem } = await send(await token());
      expect([answer.status, answer.headers.get("cache-control")]).toEqual([400, "no-store"]);
      expect(problem).toMatchObject({ code: "logout_token_invalid", error: "invalid_request" });
      expect(problem?.detail).toContain(detail);
      expect(problem?.error_description).toBe(problem?.detail);
      expect(await sessionOf(agent)).toBe(200);
    },
  );

  it("is valid for 60 s of difference between the clocks", async () => {
    const iat = seconds();
    expect(await statusOf(await tokenWith({ iat: iat + 60, exp: iat + 180 }))).toBe(200);
    expect(await statusOf(await tokenWith({ iat: iat - 100, exp: iat - 58 }))).toBe(200);
  });
});

describe("the endpoint of logout tokens", async () => {
  const { privateKey } = await generateKeyPair("ES256");
  const withUnknownKey = signedWith("ES256", privateKey, "unknown");

  it("takes a form of at most 16 KiB", async () => {
    const post = async (body: string, type = "application/x-www-form-urlencoded") => {
      const init = { method: "POST", body, headers: { "Content-Type": type } };
      return (await app.request(`${origin}/api/auth/backchannel-logout`, init)).status;
    };
    expect(await post("{}", "application/json")).toBe(415);
    expect(await post(`logout_token=${"a".repeat(16_384)}`)).toBe(413);
    expect(await post("logout_token=a&logout_token=b")).toBe(400);
  });

  it("E7: refuses the invalid tokens of an address with 429 after 200 of them, and no valid one", async () => {
    for (let sent = 0; sent < 200; sent++) await send("invalid");
    const { answer, problem } = await send("invalid");
    expect([answer.status, problem?.code]).toEqual([429, "rate_limited"]);
    expect(answer.headers.get("retry-after")).toBe("1");
    expect(await statusOf(await tokenWith())).toBe(200);
    await pass(1000);
    expect(await statusOf("invalid")).toBe(400);
  });

  it("reads the provider's keys at most once in 30 s for tokens with an unknown one", async () => {
    const before = provider.requests.get("/jwks") ?? 0;
    for (let sent = 0; sent < 5; sent++)
      expect(await statusOf(await tokenWith({}, withUnknownKey))).toBe(400);
    expect((provider.requests.get("/jwks") ?? 0) - before).toBe(1);
    expect(await statusOf(await tokenWith())).toBe(200);
  });

  it("W6: accepts a key that an id_token has just brought to the same web, within seconds of an unknown one", async () => {
    const same = { request: fetch };
    await pass(30_000);
    expect(await statusOf(await tokenWith({}, withUnknownKey), same)).toBe(400);
    await provider.rotateKeys();
    const agent = await signIn(sid);
    expect(await sessionOf(agent)).toBe(200);
    expect([await statusOf(await tokenWith(), same), await sessionOf(agent)]).toEqual([200, 401]);
  });

  it("answers 503 when the keys cannot be read", async () => {
    provider.tampering = { jwks: { status: 500, body: "" } };
    const { answer, problem } = await send(await tokenWith());
    expect([answer.status, problem?.code]).toEqual([503, "identity_provider_unavailable"]);
  });

  it("answers 503 while core is away, and ends the sessions when it is back", async () => {
    const agent = await signIn(sid);
    const [last] = await signOuts(1);
    isCoreAway = true;
    const token = await tokenWith({ sub: undefined });
    for (let sent = 0; sent < 3; sent++) {
      const { answer, problem } = await send(token);
      expect([answer.status, problem?.code]).toEqual([503, "core_unavailable"]);
    }
    expect(await sessionOf(agent)).toBe(200);
    // The provider's repetitions are retried as one.
    const before = callsAway;
    await pass(2_000);
    await expect.poll(() => callsAway - before).toBe(1);
    await pass(1_999);
    expect(callsAway - before).toBe(1);
    isCoreAway = false;
    await expect
      .poll(async () => {
        await pass(2_000);
        return sessionOf(agent);
      })
      .toBe(401);
    expect(await statusOf(token)).toBe(200);
    await pass(1);
    expect(await signOuts(2)).toEqual([expect.objectContaining({ outcome: "success" }), last]);
  });
});

describe("a sign-out at web", () => {
  const signOut = async (agent: UserAgent) => {
    const headers = { Origin: origin, "Content-Type": "application/x-www-form-urlencoded" };
    return agent.fetch(`${origin}/api/auth/logout`, { method: "POST", headers, body: "" });
  };

  it("is all without an end_session_endpoint, and the page says so", async () => {
    const agent = await signIn();
    const answer = await signOut(agent);
    const page = "/login?reason=signed_out";
    expect([answer.status, answer.headers.get("location")]).toEqual([303, page]);
    const { text } = await agent.visit(origin + page);
    expect(text).toContain("Your account at the identity provider stays signed in");
  });

  it("names the client in place of an id_token that no cookie holds", async () => {
    await pass(3_600_001);
    const end_session_endpoint = `${provider.issuer}/logout?tenant=a`;
    const claims = { groups: "g".repeat(4000) };
    provider.tampering = { claims, metadata: { end_session_endpoint } };
    const agent = createUserAgent();
    await agent.fetch((await begin(agent)).back.href);
    const refresh = (await signOut(agent)).headers.get("refresh") ?? "";
    const next = new URL(refresh.replace("0; url=", ""));
    expect([...next.searchParams.keys()]).toEqual([
      "tenant",
      "client_id",
      "post_logout_redirect_uri",
      "state",
    ]);
  });
});
