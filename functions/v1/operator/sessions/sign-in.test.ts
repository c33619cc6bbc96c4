import { hash } from "node:crypto";
import { eq, like } from "drizzle-orm";
import { beforeEach, describe, expect, it } from "vitest";
import { deviceAuthorization, person } from "#drizzle/schema/operator.ts";
import { useTestCore } from "#tests/support/core.ts";

const test = await useTestCore();
const { api, clock, lastEvent, people } = test;
// Codes, limits and events of one test are none of another's.
beforeEach(() => clock.advance(3_600_000));

interface Token {
  access_token: string;
  session_id: string;
  code: string;
}

const verifier = "dBjftJeZ4CVP-mBAx7DwiFd5RzJsr9GWOUqKR5cCEUQ";
const challenge = hash("sha256", verifier, "base64url");
const redirect_uri = "http://127.0.0.1:49152/callback";
const remote_addr = "192.0.2.7";

const authorize = async (as: "admin" | "reader" | "auditor") => {
  const body = { code_challenge: challenge, redirect_uri, client_name: "svc-admin on lovelace" };
  const answer = await test[as].post("/v1/operator/authorizations", body);
  return answer.body.code;
};
const postAsWeb = async <Body = Token>(path: string, body: object) =>
  api<Body>("POST", `/v1/operator/${path}`, { as: await test.asWeb(), body });
const grant = {
  grant_type: "authorization_code",
  code_verifier: verifier,
  redirect_uri,
  remote_addr,
};
const redeem = (changes: object) => postAsWeb("tokens", { ...grant, ...changes });
const signIn = async (as: "admin" | "reader" | "auditor") => {
  const { body } = await redeem({ code: await authorize(as) });
  // The next event is of a later millisecond: events of one have no order in the list.
  await clock.advance(1);
  return { bearer: body.access_token, id: body.session_id };
};
const rejected = (code: string) => ({ body: { code } });
const change = (name: "reader" | "auditor", values: Partial<typeof person.$inferInsert>) =>
  test.db.update(person).set(values).where(eq(person.userId, people[name].userId));
const whoami = (token: { bearer: string }) => api("GET", "/v1/whoami", { as: token });

describe("the authorization code flow", () => {
  it("signs a program in as the person who consented, for an hour, with the scopes of each request", async () => {
    const { bearer } = await signIn("auditor");
    expect(await lastEvent()).toMatchObject({
      action: "operator_session.create",
      actor: { id: people.auditor.userId },
      remote_addr,
    });
    expect((await whoami({ bearer })).body).toMatchObject({
      email: people.auditor.email,
      scopes: ["read", "audit"],
    });
    await change("auditor", { scopes: ["read"] });
    expect((await whoami({ bearer })).body).toMatchObject({ scopes: ["read"] });
    await change("auditor", { status: "suspended" });
    expect((await whoami({ bearer })).status).toBe(401);
    await change("auditor", { status: "active", scopes: ["read", "audit"] });
    await clock.advance(3_599_000);
    expect((await whoami({ bearer })).status).toBe(200);
    await clock.advance(62_000);
    expect((await whoami({ bearer })).status).toBe(401);
  });

  it("rejects a second use of a code, and ends the session of the first", async () => {
    const code = await authorize("admin");
    const { body } = await redeem({ code });
    await clock.advance(1);
    const token = { bearer: body.access_token };
    expect((await whoami(token)).status).toBe(200);
    expect(await redeem({ code })).toMatchObject(rejected("invalid_grant"));
    expect(await lastEvent()).toMatchObject({
      action: "operator_session.refuse",
      reason_code: "code_replayed",
    });
    expect((await whoami(token)).status).toBe(401);
  });

  it.each([
    ["another verifier", { code_verifier: "v".repeat(43) }, "verifier_mismatch"],
    [
      "another redirect address",
      { redirect_uri: "http://127.0.0.1:49153/callback" },
      "redirect_uri_mismatch",
    ],
  ])("rejects a code with %s, and the code is then used up", async (_, changes, reason) => {
    const code = await authorize("admin");
    expect(await redeem({ code, ...changes })).toMatchObject(rejected("invalid_grant"));
    expect(await lastEvent()).toMatchObject({
      reason_code: reason,
      actor: { id: people.admin.userId },
    });
    expect(await redeem({ code })).toMatchObject(rejected("invalid_grant"));
  });

  it("rejects a code after a minute, an unknown one, and one of a person suspended in between", async () => {
    const late = await authorize("admin");
    await clock.advance(60_000);
    expect(await redeem({ code: late })).toMatchObject(rejected("invalid_grant"));
    expect(await lastEvent()).toMatchObject({ reason_code: "code_expired" });
    expect(await redeem({ code: "unknown" })).toMatchObject(rejected("invalid_grant"));
    const code = await authorize("reader");
    await change("reader", { status: "suspended" });
    expect(await redeem({ code })).toMatchObject(rejected("invalid_grant"));
    expect(await lastEvent()).toMatchObject({ reason_code: "person_not_active" });
    await change("reader", { status: "active" });
  });

  it("gives a code to one of two who redeem it at once", { tags: "workerd" }, async () => {
    const code = await authorize("admin");
    const answers = await Promise.all([redeem({ code }), redeem({ code })]);
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 400]);
  });

  it.each([
    "http://localhost:80/cb",
    "https://127.0.0.1:80/cb",
    "http://127.0.0.1.evil.test:80/cb",
    "http://192.0.2.7:80/",
  ])("refuses to redirect to %s", async (uri) => {
    const body = { code_challenge: challenge, redirect_uri: uri, client_name: "svc-admin" };
    const { status } = await test.admin.post("/v1/operator/authorizations", body);
    expect(status).toBe(422);
  });

  it("audits that the person refused on the consent page", { tags: "workerd" }, async () => {
    const path = "/v1/operator/authorizations/refusals";
    const body = { client_name: "svc-admin on lovelace", remote_addr };
    expect((await test.reader.post(path, body)).status).toBe(204);
    expect(await lastEvent()).toMatchObject({
      action: "operator_session.refuse",
      reason_code: "consent_denied",
      actor: { id: people.reader.userId },
      remote_addr,
      details: { client_name: "svc-admin on lovelace" },
    });
  });
});

describe("the device flow", () => {
  const begin = async (address = remote_addr) => {
    const body = { client_name: "svc-admin on build-7", remote_addr: address };
    return (await postAsWeb<{ device_code: string; user_code: string }>("devices", body)).body;
  };
  const poll = (device_code: string) =>
    postAsWeb("tokens", { grant_type: "device_code", device_code, remote_addr });
  const decide = (userCode: string, approved: boolean) =>
    test.reader.post(`/v1/operator/devices/${userCode}/decision`, { approved, remote_addr });

  it("signs the machine in as the person who approved it, once", { tags: "workerd" }, async () => {
    const { user_code, device_code } = await begin();
    expect(user_code).toMatch(/^[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}$/);
    expect(await poll(device_code)).toMatchObject(rejected("authorization_pending"));
    const shown = await test.reader.read(`/v1/operator/devices/${user_code.toLowerCase()}`);
    expect(shown).toMatchObject({ client_name: "svc-admin on build-7", remote_addr });
    expect((await decide(user_code, true)).status).toBe(204);
    expect((await decide(user_code, true)).status).toBe(404);
    await clock.advance(5000);
    const { body } = await poll(device_code);
    const who = await whoami({ bearer: body.access_token });
    expect(who.body).toMatchObject({ email: people.reader.email });
    expect(await poll(device_code)).toMatchObject(rejected("invalid_grant"));
  });

  it("tells a machine that polls too often to slow down, for five seconds more each time", async () => {
    const { device_code } = await begin();
    for (const [ms, code] of [
      [0, "authorization_pending"],
      [4999, "slow_down"],
      [9999, "slow_down"],
      [15_000, "authorization_pending"],
    ] as const) {
      await clock.advance(ms);
      expect(await poll(device_code), `${ms}`).toMatchObject(rejected(code));
    }
  });

  it("rejects a refused and an expired code, and audits the refusal", async () => {
    const refused = await begin();
    expect((await decide(refused.user_code, false)).status).toBe(204);
    expect(await lastEvent()).toMatchObject({
      reason_code: "consent_denied",
      actor: { id: people.reader.userId },
    });
    expect(await poll(refused.device_code)).toMatchObject(rejected("access_denied"));
    const late = await begin();
    await clock.advance(600_000);
    expect((await decide(late.user_code, true)).status).toBe(404);
    expect(await poll(late.device_code)).toMatchObject(rejected("expired_token"));
  });

  it("N3: keeps no device for longer than an hour, though no person signs a program in", async () => {
    await begin();
    await clock.advance(3_600_001);
    await begin();
    expect(await test.db.$count(deviceAuthorization)).toBe(1);
  });

  it("N3: gives the place of the oldest of the address that has most when too many wait, and refuses nobody", async () => {
    const first = await begin("198.51.100.7");
    const flooders = Array.from({ length: 50 }, (_, at) => `203.0.113.${at}`);
    const rows = Array.from({ length: 10_000 }, (_, at) => ({
      deviceCodeSha256: hash("sha256", `flood ${at}`, "buffer"),
      userCode: `flood ${at}`,
      clientName: "x",
      remoteAddress: "",
      addressKey: flooders[at % 50] ?? "",
      createdAt: new Date(clock.now() + 1 + at),
      status: "pending" as const,
      intervalSeconds: 5,
    }));
    for (let at = 0; at < rows.length; at += 2_000)
      await test.db.insert(deviceAuthorization).values(rows.slice(at, at + 2_000));
    await clock.advance(20_000);
    const begun = [first];
    for (const address of ["2001:db8::7", "203.0.113.0", "198.51.100.8"])
      begun.push(await begin(address));
    for (const { device_code } of begun)
      expect(await poll(device_code)).toMatchObject(rejected("authorization_pending"));
    const left = (userCode: string) =>
      test.db.$count(deviceAuthorization, like(deviceAuthorization.userCode, userCode));
    expect([await left("flood %"), await left("flood 0")]).toEqual([9_997, 0]);
    await test.db.delete(deviceAuthorization);
  });
});

describe("sessions", () => {
  const list = async (query: string, as: { bearer: string }) => {
    const path = `/v1/operator/sessions${query}`;
    return (await api<{ items: { id: string }[] }>("GET", path, { as })).body.items;
  };

  it("are listed to their person, and everyone's to an admin", { tags: "workerd" }, async () => {
    const reader = await signIn("reader");
    const admin = await signIn("admin");
    const own = await list("", reader);
    expect(own.map(({ id }) => id)).not.toContain(admin.id);
    expect(own[0]).toMatchObject({ id: reader.id, state: "active", current: true });
    const everyone = (await list("?everyone=true", admin)).map(({ id }) => id);
    expect(everyone).toEqual(expect.arrayContaining([reader.id, admin.id]));
    const forbidden = await api("GET", "/v1/operator/sessions?everyone=true", { as: reader });
    expect(forbidden).toMatchObject({ body: { code: "forbidden", scope: "admin" } });
  });

  it("end with the next request, by their person or an admin, and by nobody else", {
    tags: "workerd",
  }, async () => {
    const reader = await signIn("reader");
    const other = await signIn("auditor");
    const admin = await signIn("admin");
    const end = (id: string, as: { bearer: string }) =>
      api("DELETE", `/v1/operator/sessions/${id}`, { as });
    expect((await end(reader.id, other)).status).toBe(404);
    expect((await end(reader.id, reader)).status).toBe(204);
    expect(await lastEvent()).toMatchObject({
      action: "operator_session.revoke",
      actor: { id: people.reader.userId },
    });
    expect((await whoami(reader)).status).toBe(401);
    expect((await end(other.id, admin)).status).toBe(204);
    expect((await end(other.id, admin)).status).toBe(204);
    expect((await whoami(other)).status).toBe(401);
  });
});
