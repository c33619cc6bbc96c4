import { generateKeyPair, UnsecuredJWT } from "jose";
import { beforeEach, describe, expect, it } from "vitest";
import { createUserAgent } from "#scripts/lab/user-agent.ts";
import { signedWith, type Tampering } from "#tests/fakes/tampering-provider.ts";
import { startTamperedWeb } from "#tests/support/tampered-web.ts";

const { provider, web, pass, now, begin } = await startTamperedWeb();
beforeEach(() => {
  provider.tampering = {};
});

/** Signs in; `change` modifies the redirect back from the provider. Returns where the sign-in ended. */
const signIn = async (change: (back: URL) => void = () => undefined, agent = createUserAgent()) => {
  const { back } = await begin(agent);
  change(back);
  const { status, headers } = await agent.fetch(back.href);
  const location = headers.get("location") ?? "";
  const reason = new URL(location, web.origin).searchParams.get("reason");
  const signedIn = agent.cookie("svc_session") !== undefined;
  return { agent, back, status, location, reason, signedIn };
};
const refusedAs = (reason: string) => ({ status: 303, reason, signedIn: false });
const expectRefused = async (...faults: ((back: URL) => void)[]) => {
  for (const fault of faults)
    expect(await signIn(fault)).toMatchObject(refusedAs("sign_in_failed"));
};

const withError = (error: string) => (back: URL) => {
  back.searchParams.delete("code");
  back.searchParams.set("error", error);
};

/** A response that never comes. */
const stalled = new Promise<never>(() => undefined);

describe("the provider's redirect", () => {
  it("signs in when everything in it is valid", async () => {
    expect(await signIn()).toMatchObject({ status: 303, location: "/", signedIn: true });
  });

  it("A1: is rejected with another state, without one, and with two", async () => {
    await expectRefused(
      ({ searchParams }) => searchParams.set("state", "x".repeat(43)),
      ({ searchParams }) => searchParams.delete("state"),
      ({ searchParams }) => searchParams.append("state", searchParams.get("state") ?? ""),
    );
  });

  it("A1: works once, in the browser that started, and for ten minutes", async () => {
    const { agent, back } = await signIn();
    const exchanged = provider.requests.get("/token");
    const expectFailed = async (by: typeof agent, redirect: URL) => {
      const { headers } = await by.fetch(redirect.href);
      expect(headers.get("location")).toMatch(/^\/login\?reason=sign_in_failed&id=/);
    };
    await expectFailed(agent, back);
    expect(agent.cookieHeader(back.href)).not.toContain("svc_sign_in");
    expect(provider.requests.get("/token")).toBe(exchanged);
    await expectFailed(createUserAgent(), (await begin()).back);
    const late = createUserAgent();
    const slow = (await begin(late)).back;
    await pass(600_000);
    await expectFailed(late, slow);
  });

  it("A1: works in each of several tabs, in any order", async () => {
    const agent = createUserAgent();
    const tabs: URL[] = [];
    while (tabs.length < 3) tabs.push((await begin(agent, "?return_to=/fleet")).back);
    const [, , cancelled] = tabs;
    if (cancelled) withError("access_denied")(cancelled);
    const answers: Response[] = [];
    for (const back of tabs.reverse()) answers.push(await agent.fetch(back.href));
    expect(answers.map(({ headers }) => headers.get("location")?.split("&")[0])).toEqual([
      "/login?reason=sign_in_cancelled",
      "/fleet",
      "/fleet",
    ]);
    expect(agent.cookieHeader(`${web.origin}/api/auth/login`)).not.toContain("svc_sign_in");
    // Audit events of one millisecond have no order in the list.
    await pass(1);
  });

  it("A1: is rejected by PKCE when its code belongs to another attempt", async () => {
    const stolen = (await begin()).back.searchParams.get("code") ?? "";
    await expectRefused(({ searchParams }) => searchParams.set("code", stolen));
  });

  it("A1: is rejected when it names another issuer, or none although the provider announced one", async () => {
    await expectRefused(
      ({ searchParams }) => searchParams.set("iss", "https://accounts.google.com"),
      ({ searchParams }) => searchParams.set("iss", `${provider.issuer}/`),
      ({ searchParams }) => searchParams.delete("iss"),
    );
  });

  it.each([
    [
      "server_error",
      "sign_in_unavailable",
      "The identity provider, Example ID, gives no usable answer.",
    ],
    ["consent_required", "sign_in_rejected", "Example ID answered <code>consent_required</code>."],
    ["<b>of its own", "sign_in_rejected", "The identity provider refused the sign-in"],
  ])(
    "W6: names the provider where it answers %s, in place of this browser",
    async (error, reason, words) => {
      const { agent, location, ...ended } = await signIn(withError(error));
      expect(ended).toMatchObject(refusedAs(reason));
      const { text } = await agent.visit(`${web.origin}${location}`);
      expect(text).toContain(words);
      expect(text).not.toContain("another browser");
      expect(text).not.toContain("of its own");
    },
  );

  it("distinguishes a cancelled sign-in from a response without a code", async () => {
    expect(await signIn(withError("access_denied"))).toMatchObject(refusedAs("sign_in_cancelled"));
    await expectRefused(({ searchParams }) => searchParams.delete("code"));
  });
});

describe("an id_token", () => {
  const seconds = () => Math.floor(now() / 1000);
  const audiences = ["svc-web", "another-client"];

  const faults: Record<string, () => Tampering | Promise<Tampering>> = {
    "alg none": () => ({ sign: (claims) => new UnsecuredJWT(claims).encode() }),
    "HS256 with the client secret": () => ({
      sign: signedWith("HS256", provider.clientSecret.padEnd(32)),
    }),
    "another key": async () => ({
      sign: signedWith("ES256", (await generateKeyPair("ES256")).privateKey),
    }),
    "another nonce": () => ({ claims: { nonce: "another" } }),
    "no nonce": () => ({ claims: { nonce: undefined } }),
    "another audience": () => ({ claims: { aud: "another-client" } }),
    "several audiences and no azp": () => ({ claims: { aud: audiences } }),
    "azp of another client": () => ({ claims: { aud: audiences, azp: "another-client" } }),
    "another issuer": () => ({ claims: { iss: "https://accounts.google.com" } }),
    expired: () => ({ claims: { iat: seconds() - 400, exp: seconds() - 61 } }),
    "no exp": () => ({ claims: { exp: undefined } }),
    "not yet valid": () => ({ claims: { nbf: seconds() + 120 } }),
    "no sub": () => ({ claims: { sub: undefined } }),
    "no JWT": () => ({ sign: () => "opaque" }),
  };

  it.each(Object.entries(faults))("A1: is rejected with %s, and audited", async (_, fault) => {
    provider.tampering = await fault();
    expect(await signIn()).toMatchObject(refusedAs("sign_in_failed"));
    const event = await web.core.lastEvent("action=operator.sign_in");
    expect(event).toMatchObject({ outcome: "failure", reason_code: "sign_in_failed" });
  });

  it("is accepted for several audiences when azp is this client", async () => {
    provider.tampering = { claims: { aud: audiences, azp: "svc-web" } };
    expect(await signIn()).toMatchObject({ signedIn: true });
  });

  it("A1: is verified with a new key of the provider at once", async () => {
    await signIn();
    const before = provider.requests.get("/jwks") ?? 0;
    await provider.rotateKeys();
    expect(await signIn()).toMatchObject({ signedIn: true });
    expect(provider.requests.get("/jwks")).toBe(before + 1);
  });
});

describe("a failing provider", () => {
  const expectUnavailable = async (tampering: Tampering) => {
    provider.tampering = tampering;
    expect(await signIn()).toMatchObject(refusedAs("sign_in_unavailable"));
  };

  it("redirects to the sign-in page, which names the failure", async () => {
    for (const token of [
      { status: 500, body: "" },
      { status: 200, body: "<html>" },
      { status: 401, body: '{"error":"invalid_client"}' },
    ])
      await expectUnavailable({ token });
  });

  it("delays its own sign-in for five seconds, and no other", async () => {
    provider.tampering = { token: stalled };
    let ended = 0;
    const hold = () =>
      signIn().then((outcome) => {
        ended += 1;
        return outcome;
      });
    const until = async (holds: () => boolean) => {
      while (!holds()) await web.clock.advance(0);
    };
    const before = provider.requests.get("/token") ?? 0;
    const held = Array.from({ length: 64 }, hold);
    await until(() => provider.waiting("/token") === 64);
    held.push(...Array.from({ length: 6 }, hold));
    // The newest six evict the first six.
    await until(() => ended === 6 && provider.requests.get("/token") === before + 70);
    provider.tampering = {};
    expect(await signIn()).toMatchObject({ signedIn: true });
    await until(() => ended === 7);
    await web.clock.advance(4999);
    expect(ended).toBe(7);
    await pass(1);
    for (const refused of await Promise.all(held))
      expect(refused).toMatchObject(refusedAs("sign_in_unavailable"));
  });

  it("delays a sign-in as long when it does not return its keys", async () => {
    await provider.rotateKeys();
    provider.tampering = { jwks: stalled };
    const held = signIn();
    while (provider.waiting("/jwks") === 0) await web.clock.advance(0);
    await pass(5000);
    expect(await held).toMatchObject(refusedAs("sign_in_unavailable"));
    provider.tampering = {};
    expect(await signIn()).toMatchObject({ signedIn: true });
  });

  it("is not mistaken for an invalid token when its keys cannot be read", async () => {
    await provider.rotateKeys();
    await expectUnavailable({ jwks: { status: 500, body: "" } });
    await expectUnavailable({ jwks: { status: 200, body: "[]" } });
    provider.tampering = {};
    expect(await signIn()).toMatchObject({ signedIn: true });
  });

  it.each([
    [undefined, "select_account"],
    [["none", "login", "consent"], "login"],
    [["none", "consent"], null],
  ])(
    "W6: that lists the prompts %j is asked for another account by %s",
    async (prompt_values_supported, prompt) => {
      await pass(3_600_001);
      provider.tampering = { metadata: { prompt_values_supported } };
      const { asked } = await begin(undefined, "?prompt=select_account");
      expect(asked.get("prompt")).toBe(prompt);
    },
  );

  it("is asked for its metadata once an hour; the cached one serves when it does not answer", async () => {
    const path = "/.well-known/openid-configuration";
    const before = provider.requests.get(path) ?? 0;
    await signIn();
    expect(provider.requests.get(path)).toBe(before);
    await pass(3_600_001);
    provider.tampering = { metadata: { issuer: "https://accounts.google.com" } };
    expect(await signIn()).toMatchObject({ signedIn: true });
    expect(provider.requests.get(path)).toBe(before + 1);
    expect(web.log.text()).toContain("names another issuer");
  });
});
