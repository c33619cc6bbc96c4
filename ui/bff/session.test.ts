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
    sessionSecret: new Secret(secret),
    sessionSecretPrevious: null,
    authTokenSecret: new Secret(secret),
    sessionTtlSeconds: 1800,
  }) as WebConfig;
const sessions = createSessions({ config: configOf(false), clock, entropy });
const { userId, displayName } = people.admin;
const key = new TextEncoder().encode(secret);
const now = Math.floor(clock.now() / 1000);
const claims = { jti: "x", sub: userId, name: "", aud: "web", iat: now, exp: now + 60 };
const sign = (changed: object = {}, header: object = {}, by: Uint8Array = key) =>
  new SignJWT({ ...claims, ...changed })
    .setProtectedHeader({ alg: "HS256", typ: "session+jwt", ...header })
    .sign(by);

it("a session that was ended is rejected from every copy of its cookie; other sessions of the person go on", async () => {
  const issue = async () => (await sessions.issue({ userId, displayName })).cookie.split(";")[0];
  const one = await issue();
  const other = await issue();
  expect(await sessions.read(one)).toMatchObject({ kind: "valid" });
  expect(await sessions.end(one)).toContain("Max-Age=0");
  expect(await sessions.read(one)).toEqual({ kind: "none" });
  expect(await sessions.read(other)).toMatchObject({ kind: "valid" });
  expect(await sessions.end(undefined)).toContain("Max-Age=0");
});

describe("a rotation of WEBAUTH_SECRET", () => {
  const other = "another secret, of more than 32 bytes";
  const replica = (own: string, previous: string | null) =>
    ({
      ...configOf(false),
      sessionSecret: new Secret(own),
      sessionSecretPrevious: previous === null ? null : new Secret(previous),
    }) as WebConfig;
  const before = replica(secret, null);
  const prepared = replica(secret, other);
  const rotated = replica(other, secret);
  const after = replica(other, null);
  const cookieOf = (cookies: readonly string[]) =>
    cookies.map((cookie) => cookie.split(";")[0]).join("; ");
  const pairs = [
    ...[before, prepared].flatMap((first) =>
      [before, prepared].map((second) => ({ first, second, is: "valid" })),
    ),
    ...[prepared, rotated].flatMap((first) =>
      [prepared, rotated].map((second) => ({ first, second, is: "valid" })),
    ),
    ...[rotated, after].flatMap((first) =>
      [rotated, after].map((second) => ({ first, second, is: "valid" })),
    ),
    { first: before, second: after, is: "none" },
    { first: after, second: before, is: "none" },
  ];

  it("keeps sessions and sign-ins in progress valid on every pair of replicas that a step has", async () => {
    for (const { first, second, is } of pairs) {
      const { cookie } = await createSessions({ config: first, clock, entropy }).issue({
        userId,
        displayName,
      });
      const read = await createSessions({ config: second, clock, entropy }).read(
        cookieOf([cookie]),
      );
      expect(read.kind).toBe(is);
      const { attempt, cookies } = await createAttempts({ config: first, clock, entropy }).begin(
        "/",
        "",
      );
      const resumed = await createAttempts({ config: second, clock, entropy }).resume(
        attempt.state,
        cookieOf(cookies),
      );
      expect(resumed).toEqual(is === "valid" ? attempt : null);
    }
  });
});

describe("the session cookie", () => {
  it("A7: is HttpOnly and SameSite=Lax; on https Secure with the prefix __Host-", async () => {
    const attributes = async (secure: boolean) => {
      const [pair = "", ...rest] = (
        await createSessions({ config: configOf(secure), clock, entropy }).issue({
          userId,
          displayName,
        })
      ).cookie.split("; ");
      return [pair.split("=")[0], ...rest.sort()];
    };
    const usual = ["HttpOnly", "Max-Age=1800", "Path=/", "SameSite=Lax"];
    expect(await attributes(false)).toEqual(["svc_session", ...usual]);
    expect(await attributes(true)).toEqual(["__Host-svc_session", ...usual, "Secure"]);
  });

  it("A7: has the prefix __Secure- on https and a path of its own while a sign-in is in progress", async () => {
    const attributes = async (secure: boolean) => {
      const { attempt, cookies } = await createAttempts({
        config: configOf(secure),
        clock,
        entropy,
      }).begin("/", "");
      return cookies.map((cookie) => {
        const [pair = "", ...rest] = cookie.split("; ");
        return [pair.split("=")[0]?.replace(attempt.state.slice(0, 16), "<state>"), ...rest.sort()];
      });
    };
    const usual = ["HttpOnly", "Max-Age=600", "Path=/api/auth", "SameSite=Lax"];
    expect(await attributes(false)).toEqual([["svc_sign_in_<state>", ...usual]]);
    expect(await attributes(true)).toEqual([
      ["__Secure-svc_sign_in_<state>", ...usual, "Secure"],
      ["__Host-svc_sign_in_<state>", "HttpOnly", "Max-Age=600", "Path=/", "SameSite=Lax", "Secure"],
    ]);
  });

  it("fits into 4 KiB with the longest return address and name", async () => {
    const { cookies } = await createAttempts({ config: configOf(true), clock, entropy }).begin(
      `/${"x".repeat(2047)}`,
      undefined,
    );
    for (const cookie of cookies) expect(cookie.length).toBeLessThan(4096);
    const session = await createSessions({ config: configOf(true), clock, entropy }).issue({
      userId,
      displayName: "ሀ".repeat(10_000),
    });
    expect(session.cookie.length).toBeLessThan(4096);
  });

  it("is read among others that cannot be decoded", async () => {
    const cookie = (await sessions.issue({ userId, displayName })).cookie.split(";")[0];
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
    const cookie = (await sessions.issue({ userId, displayName })).cookie.split(";")[0];
    for (const blank of ["\u00a0", "\ufeff", "\u2028", "\t", "\v", "\f"])
      expect({ blank, ...(await sessions.read(`a=b; ${blank}${cookie}`)) }).toEqual({
        blank,
        kind: "none",
      });
  });

  it("accepts no other token, even with one secret for everything", async () => {
    const [cookie = ""] = (
      await createAttempts({ config: configOf(false), clock, entropy }).begin("/", "")
    ).cookies;
    const others: Record<string, string> = {
      "alg none": new UnsecuredJWT(claims).encode(),
      HS512: await sign({}, { alg: "HS512" }),
      "another secret": await sign(
        {},
        {},
        new TextEncoder().encode("another secret of more than 32 bytes"),
      ),
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
      expect({ what, ...(await sessions.read(`svc_session=${token}`)) }).toEqual({
        what,
        kind: "none",
      });
    expect(await sessions.read(undefined)).toEqual({ kind: "none" });
    expect(await sessions.read(`svc_session=${await sign({ exp: now })}`)).toEqual({
      kind: "expired",
    });
    expect(await sessions.read(`svc_session=${await sign()}`)).toMatchObject({ kind: "valid" });
  });
});
