import { eq } from "drizzle-orm";
import { SignJWT, UnsecuredJWT } from "jose";
import { describe, expect, it } from "vitest";
import { person } from "#drizzle/schema/operator.ts";
import { mintBridgeToken } from "#scripts/lab/people.ts";
import { useTestCore } from "#tests/support/core.ts";

const test = await useTestCore();
const { auditor, reader, admin, api, people, clock } = test;
const key = new TextEncoder().encode(test.config.authTokenSecret.reveal());
const now = () => Math.floor(clock.now() / 1000);
const sign = (claims: object, header: object = {}) =>
  new SignJWT({ ...claims }).setProtectedHeader({ alg: "HS256", typ: "JWT", ...header }).sign(key);
const whoami = (bearer: string) => api("GET", "/v1/whoami", { as: { bearer } });
const changeReader = (values: Partial<typeof person.$inferInsert>) =>
  test.db.update(person).set(values).where(eq(person.userId, people.reader.userId));
const usual = () => ({ sub: people.admin.userId, aud: "core", iat: now(), exp: now() + 300 });

/** Another text of the same bytes: the last of 43 characters has two bits that decode to nothing. */
const withUnusedBits = (token: string) => {
  const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  return token.slice(0, -1) + alphabet[alphabet.indexOf(token.at(-1) ?? "") + 1];
};

describe("GET /v1/whoami", () => {
  it("returns the operator and the scopes that the database has now", {
    tags: "workerd",
  }, async () => {
    expect(await auditor.read("/v1/whoami")).toEqual({
      user_id: people.auditor.userId,
      email: people.auditor.email,
      scopes: ["read", "audit"],
    });
    const token = await test.bridgeToken("reader");
    for (const scopes of [["read", "audit"], ["read"]] as const) {
      await changeReader({ scopes: [...scopes] });
      expect((await whoami(token)).body.scopes).toEqual(scopes);
    }
  });

  it("K2: names the clocks when web has just made a token that has expired, or that is not valid yet", async () => {
    const { iat } = usual();
    const bySession = { ...usual(), web_session: "a-session-at-web" };
    for (const offset of [-7200, 7200]) {
      const times = { iat: iat + offset, exp: iat + offset + 300 };
      for (const claims of [bySession, { ...usual(), sub: "web" }])
        expect((await whoami(await sign({ ...claims, ...times }))).body).toMatchObject({
          status: 401,
          code: "token_clock_skew",
          action: "fix_clock",
          server_time: clock.iso(),
        });
    }
    expect((await whoami(await sign(bySession))).status).toBe(200);
  });

  it("A4: answers every faulty bridge token with the same 401, and logs the reason", async () => {
    const { sub, aud, iat, exp } = usual();
    const faulty: Record<string, string> = {
      "alg none": new UnsecuredJWT(usual()).encode(),
      HS512: await new SignJWT(usual()).setProtectedHeader({ alg: "HS512", typ: "JWT" }).sign(key),
      "another secret": await mintBridgeToken("another-secret-of-more-than-32-bytes", {
        sub,
        now: clock.now(),
      }),
      "another typ": await sign(usual(), { typ: "at+jwt" }),
      "another aud": await sign({ ...usual(), aud: "web" }),
      "one aud of several": await sign({ ...usual(), aud: ["core", "web"] }),
      "no exp": await sign({ sub, aud, iat }),
      "no iat": await sign({ sub, aud, exp }),
      expired: await sign({ ...usual(), iat: iat - 300, exp: iat - 61 }),
      "iat ahead": await sign({ ...usual(), iat: iat + 61, exp: iat + 361 }),
      "longer than an hour": await sign({ ...usual(), exp: iat + 3601 }),
      "a stranger": await sign({ ...usual(), sub: "01920000-0000-7000-8000-0000000000ff" }),
      "a subject that is no id": await sign({ ...usual(), sub: "' or 1=1 --" }),
      "a subject in another spelling": await sign({ ...usual(), sub: sub.toUpperCase() }),
      "a subject that is a list": await sign({ ...usual(), sub: [sub] as unknown as string }),
      "a signature with unused bits set": withUnusedBits(await sign(usual())),
      "a padded signature": `${await sign(usual())}=`,
      garbage: "a.b.c",
    };
    for (const [fault, bearer] of Object.entries(faulty)) {
      const { headers, body } = await whoami(bearer);
      expect(body, fault).toMatchObject({
        status: 401,
        code: "unauthenticated",
        detail: "A valid bearer token is needed",
      });
      expect(headers.get("www-authenticate")).toBe('Bearer realm="core"');
    }
    expect(test.log.text()).toContain("lives longer than an hour");
    const basic = await api("GET", "/v1/whoami", {
      headers: { Authorization: `Basic ${btoa("a:b")}` },
    });
    expect(basic.status).toBe(401);
    const atTheEdge = await sign({ ...usual(), iat: iat - 300, exp: iat - 59 });
    expect((await whoami(atTheEdge)).status).toBe(200);
  });

  it.each(["suspended", "archived", "unverified", "absent"] as const)(
    "rejects a person who is %s",
    async (status) => {
      await changeReader({ status });
      expect((await reader.get("/v1/whoami")).status).toBe(401);
      await changeReader({ status: "active" });
    },
  );
});

describe("every response", () => {
  it("has an X-Request-Id: the caller's if it is well-formed, else a new one", {
    tags: "workerd",
  }, async () => {
    const withId = (id: string) =>
      api("GET", "/v1/whoami", { as: "reader", headers: { "X-Request-Id": id } });
    expect((await withId("order-66.a_B")).headers.get("x-request-id")).toBe("order-66.a_B");
    for (const id of ["", "a b", "x".repeat(65), "näh"])
      expect((await withId(id)).headers.get("x-request-id")).toMatch(/^[0-9a-f-]{36}$/);
  });

  it("is a problem document for an unknown path and for a method that the path does not accept", {
    tags: "workerd",
  }, async () => {
    const missing = await admin.get("/v1/nowhere");
    expect(missing.headers.get("content-type")).toBe("application/problem+json");
    expect(missing.body).toMatchObject({
      type: "urn:svc:problem:not_found",
      status: 404,
      action: "fix_request",
    });
    expect(missing.headers.get("x-request-id")).toBe(missing.body.request_id);
    expect(test.observations).toContainEqual({
      method: "httpRequest",
      args: ["unmatched", "GET", "404", expect.any(Number)],
    });
    const method = await admin.delete("/v1/whoami");
    expect(method.body).toMatchObject({ code: "method_not_allowed", status: 405 });
    expect(method.headers.get("allow")).toBe("GET");
    expect(method.body.request_id).toBe(method.headers.get("x-request-id"));
  });
});
