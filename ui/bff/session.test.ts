import { SignJWT, UnsecuredJWT } from "jose";
import { describe, expect, it } from "vitest";
import { Secret } from "#kit/secret.ts";
import { people } from "#scripts/lab/people.ts";
import { createTestClock } from "#tests/fakes/clock.ts";
import { createSeededEntropy } from "#tests/fakes/entropy.ts";
import type { WebConfig } from "./config.ts";
import { createBridge } from "./core-client.ts";
import { createSessions } from "./session.ts";
import { createAttempts } from "./sign-in/attempt.ts";

const clock = createTestClock();
const entropy = createSeededEntropy();
const secret = "one secret for both, which is the worst case";
const configOf = (secure: boolean) =>
  ({
    secure,
    sessionSecrets: { secret: new Secret(secret), previous: null },
    authTokenSecret: new Secret(secret),
    sessionTtlSeconds: 1800,
  }) as WebConfig;
const sessionsWith = (config = configOf(false)) => createSessions({ config, clock, entropy });
const attemptsWith = (config = configOf(false)) => createAttempts({ config, clock, entropy });
const sessions = sessionsWith();
const { userId, displayName } = people.admin;
const admin = { userId, displayName };
/** Issues a session and returns what the browser sends. */
const issue = async (by = sessions) => (await by.issue(admin)).cookie.split(";")[0];
const none = { kind: "none" };
const key = new TextEncoder().encode(secret);
const now = Math.floor(clock.now() / 1000);
const claims = { jti: "x", sub: userId, name: "", aud: "web", iat: now, exp: now + 60 };
const sign = (changed: object = {}, header: object = {}, by: Uint8Array = key) =>
  new SignJWT({ ...claims, ...changed })
    .setProtectedHeader({ alg: "HS256", typ: "session+jwt", ...header })
    .sign(by);

it("a session that was ended is rejected from every copy of its cookie; other sessions of the person go on", async () => {
  const one = await issue();
  const other = await issue();
  expect(await sessions.read(one)).toMatchObject({ kind: "valid" });
  expect(await sessions.end(one)).toContain("Max-Age=0");
  expect(await sessions.read(one)).toEqual(none);
  expect(await sessions.read(other)).toMatchObject({ kind: "valid" });
  expect(await sessions.end(undefined)).toContain("Max-Age=0");
});

describe("a rotation of WEBAUTH_SECRET", () => {
  const other = "another secret, of more than 32 bytes";
  const replica = (own: string, previous: string | null) =>
    ({
      ...configOf(false),
      sessionSecrets: {
        secret: new Secret(own),
        previous: previous === null ? null : new Secret(previous),
      },
    }) as WebConfig;
  const before = replica(secret, null);
  const prepared = replica(secret, other);
  const rotated = replica(other, secret);
  const after = replica(other, null);
  const steps = [
    [before, prepared],
    [prepared, rotated],
    [rotated, after],
  ];
  const pairs = [
    ...steps.flatMap((step) =>
      step.flatMap((first) => step.map((second) => ({ first, second, is: "valid" }))),
    ),
    { first: before, second: after, is: "none" },
    { first: after, second: before, is: "none" },
  ];

  it("keeps sessions and sign-ins in progress valid on every pair of replicas that a step has", async () => {
    for (const { first, second, is } of pairs) {
      const read = await sessionsWith(second).read(await issue(sessionsWith(first)));
      expect(read.kind).toBe(is);
      const { attempt, cookies } = await attemptsWith(first).begin("/", "");
      const sent = cookies.map((cookie) => cookie.split(";")[0]).join("; ");
      const resumed = await attemptsWith(second).resume(attempt.state, sent);
      expect(resumed).toEqual(is === "valid" ? attempt : null);
    }
  });
});

describe("the session cookie", () => {
  /** The name of a cookie and its attributes. */
  const partsOf = (cookie: string) => {
    const [pair = "", ...rest] = cookie.split("; ");
    return [pair.split("=")[0], ...rest.sort()];
  };

  it("A7: is HttpOnly and SameSite=Lax; on https Secure with the prefix __Host-", async () => {
    const attributes = async (secure: boolean) =>
      partsOf((await sessionsWith(configOf(secure)).issue(admin)).cookie);
    const usual = ["HttpOnly", "Max-Age=1800", "Path=/", "SameSite=Lax"];
    expect(await attributes(false)).toEqual(["svc_session", ...usual]);
    expect(await attributes(true)).toEqual(["__Host-svc_session", ...usual, "Secure"]);
  });

  it("A7: has the prefix __Secure- on https and a path of its own while a sign-in is in progress", async () => {
    const attributes = async (secure: boolean) => {
      const { attempt, cookies } = await attemptsWith(configOf(secure)).begin("/", "");
      const state = attempt.state.slice(0, 16);
      return cookies.map((cookie) => partsOf(cookie.replace(state, "<state>")));
    };
    const usual = ["HttpOnly", "Max-Age=600", "Path=/api/auth", "SameSite=Lax"];
    expect(await attributes(false)).toEqual([["svc_sign_in_<state>", ...usual]]);
    expect(await attributes(true)).toEqual([
      ["__Secure-svc_sign_in_<state>", ...usual, "Secure"],
      ["__Host-svc_sign_in_<state>", "HttpOnly", "Max-Age=600", "Path=/", "SameSite=Lax", "Secure"],
    ]);
  });

  it("fits into 4 KiB with the longest return address and name", async () => {
    const config = configOf(true);
    const { cookies } = await attemptsWith(config).begin(`/${"x".repeat(2047)}`, undefined);
    const named = { userId, displayName: "ሀ".repeat(10_000) };
    for (const cookie of [...cookies, (await sessionsWith(config).issue(named)).cookie])
      expect(cookie.length).toBeLessThan(4096);
  });

  it("is read among others that cannot be decoded", async () => {
    const cookie = await issue();
    const state = await sessions.read(`bad=%E0%A4%A; other=a=b; ${cookie}; svc_session_x=1`);
    expect(state).toMatchObject({
      kind: "valid",
      session: { userId, displayName, expiresAt: now + 1800 },
    });
  });

  it("K2: is not one that began while web's clock was ahead, and would last as much longer", async () => {
    const readFrom = async (iat: number) =>
      (await sessions.read(`svc_session=${await sign({ iat, exp: iat + 1800 })}`)).kind;
    expect([await readFrom(now + 600), await readFrom(now + 601)]).toEqual(["valid", "expired"]);
  });

  it("A2: is not one whose name matches only after trimming", async () => {
    const cookie = await issue();
    for (const blank of ["\u00a0", "\ufeff", "\u2028", "\t", "\v", "\f"])
      expect(await sessions.read(`a=b; ${blank}${cookie}`), escape(blank)).toEqual(none);
  });

  it("accepts no other token, even with one secret for everything", async () => {
    const [cookie = ""] = (await attemptsWith().begin("/", "")).cookies;
    const others = {
      "alg none": new UnsecuredJWT(claims).encode(),
      HS512: await sign({}, { alg: "HS512" }),
      "another secret": await sign({}, {}, key.toReversed()),
      "a bridge token": await createBridge({ config: configOf(false), clock })({ userId }),
      "a sign-in under way": cookie.slice(cookie.indexOf("=") + 1, cookie.indexOf(";")),
      "another typ": await sign({}, { typ: "JWT" }),
      "another aud": await sign({ aud: "core" }),
      "no exp": await sign({ exp: undefined }),
      "no person": await sign({ sub: "web" }),
      garbage: "a.b.c",
      "not decodable": "%E0%A4%A",
      nothing: "",
    };
    for (const [what, token] of Object.entries(others))
      expect(await sessions.read(`svc_session=${token}`), what).toEqual(none);
    expect(await sessions.read(undefined)).toEqual(none);
    expect(await sessions.read(`svc_session=${await sign({ exp: now })}`)).toEqual({
      kind: "expired",
    });
    expect(await sessions.read(`svc_session=${await sign()}`)).toMatchObject({ kind: "valid" });
  });
});
