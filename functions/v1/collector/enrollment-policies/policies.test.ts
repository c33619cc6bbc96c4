import { sql } from "drizzle-orm";
import { describe, expect, it } from "vitest";
import { isWellFormedToken } from "#functions/domain/enrollment/bootstrap-token.ts";
import { useTestCore } from "#tests/support/core.ts";

const test = await useTestCore();
const { admin, api, clock } = test;

const path = "/v1/collector/enrollment-policies";
const prefix = "spiffe://fleet.test/host/";
let names = 0;
const create = (fields: object = {}) =>
  admin.post(path, { name: `policy ${++names}`, allowed_identity_prefixes: [prefix], ...fields });
const createToken = (policyId: unknown, fields: object = {}) =>
  admin.post(`${path}/${policyId}/tokens`, fields);
const errorsOf = (body: Record<string, unknown>) =>
  body.errors as { path: string; message: string }[];

describe("enrollment policies", () => {
  it("creates a policy with the documented defaults, its creator and time, audited in the same transaction", async () => {
    const { status, body } = await create({ name: "defaults" });
    expect(status).toBe(201);
    expect(body).toEqual({
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      name: "defaults",
      description: null,
      allowed_identity_prefixes: [prefix],
      certificate_ttl_seconds: 1_814_400,
      allowed_platforms: [],
      max_enrollments: 0,
      max_enrollments_per_hour: 0,
      allowed_source_cidrs: [],
      reenrollment: "deny",
      state: "active",
      enrollment_count: 0,
      created_at: clock.iso(),
      created_by: expect.any(String),
      frozen_at: null,
      labels: {},
      workload: null,
    });
    const events = await test.db.execute(
      sql`select actor_id, outcome from audit_event where target_id = ${body.id}`,
    );
    expect(events).toEqual([{ actor_id: test.people.admin.userId, outcome: "success" }]);
  });

  it("rejects a policy name that is taken", async () => {
    await create({ name: "taken" });
    expect((await create({ name: "taken" })).body).toMatchObject({
      code: "policy_name_taken",
    });
  });

  it("E11: caps the certificate's lifetime at 30 days, and rejects less than 300 s and non-integers", async () => {
    const ttl = async (value: unknown) =>
      (await create({ certificate_ttl_seconds: value })).body.certificate_ttl_seconds;
    expect([
      await ttl(300),
      await ttl(2_592_000),
      await ttl(2_592_001),
      await ttl(2 ** 53 - 1),
    ]).toEqual([300, 2_592_000, 2_592_000, 2_592_000]);
    for (const value of [299, 0, -1, 2 ** 53, 300.5, "600", null, true]) {
      const { status, body } = await create({ certificate_ttl_seconds: value });
      expect({ value, status, path: errorsOf(body)[0]?.path }).toEqual({
        value,
        status: 422,
        path: "certificate_ttl_seconds",
      });
    }
  });

  it.each([
    ["a negative limit", { max_enrollments: -1 }, "max_enrollments"],
    ["a negative rate", { max_enrollments_per_hour: -1 }, "max_enrollments_per_hour"],
    ["a field that is not known", { max_enrolments: 5 }, "max_enrolments"],
    ["no prefix", { allowed_identity_prefixes: [] }, "allowed_identity_prefixes"],
    [
      "a prefix without its slash",
      { allowed_identity_prefixes: ["spiffe://a.test/h"] },
      "allowed_identity_prefixes.0",
    ],
    [
      "a prefix in upper case",
      { allowed_identity_prefixes: ["SPIFFE://a.test/"] },
      "allowed_identity_prefixes.0",
    ],
    [
      "a prefix with a query",
      { allowed_identity_prefixes: ["https://a.test/?x=/"] },
      "allowed_identity_prefixes.0",
    ],
    [
      "an address that is no CIDR",
      { allowed_source_cidrs: ["10.0.0.1"] },
      "allowed_source_cidrs.0",
    ],
    ["a CIDR of two parts", { allowed_source_cidrs: ["127.5/16"] }, "allowed_source_cidrs.0"],
    ["a CIDR in octal", { allowed_source_cidrs: ["010.0.0.0/8"] }, "allowed_source_cidrs.0"],
    ["a CIDR in hexadecimal", { allowed_source_cidrs: ["0x7f.0.0.0/8"] }, "allowed_source_cidrs.0"],
    [
      "a CIDR with a leading zero in its length",
      { allowed_source_cidrs: ["10.0.0.0/08"] },
      "allowed_source_cidrs.0",
    ],
    ["a CIDR with a zone", { allowed_source_cidrs: ["fe80::%eth0/64"] }, "allowed_source_cidrs.0"],
    ["a platform that is none", { allowed_platforms: ["linux/amd64/v2"] }, "allowed_platforms.0"],
    ["a name with a control character", { name: "a\u0000b" }, "name"],
    ["a label without a value", { labels: { env: "" } }, "labels.env"],
  ])("refuse %s, by path and without quoting the value", async (_, fields, where) => {
    const { status, body } = await create(fields);
    expect({ status, code: body.code, where: errorsOf(body)[0]?.path }).toEqual({
      status: 422,
      code: "validation_failed",
      where,
    });
    const [value] = Object.values(fields).flat();
    if (typeof value === "string") expect(JSON.stringify(body.errors)).not.toContain(value);
  });

  it("refuses an array as a body: it is not an object without fields", async () => {
    for (const url of [path, `${path}/01920000-0000-7000-8000-0000000000ff/tokens`]) {
      const { status, body } = await api("POST", url, {
        as: "admin",
        raw: { type: "application/json", content: "[]" },
      });
      expect({ status, errors: body.errors }).toEqual({
        status: 422,
        errors: [{ path: "", message: "must be an object" }],
      });
    }
  });

  it("reports what is expected in words, for a wrong type too", async () => {
    const wrong = {
      name: 5,
      reenrollment: "maybe",
      allowed_identity_prefixes: "x",
      max_enrollments: "many",
    };
    const { body } = await create(wrong);
    expect(
      Object.fromEntries(errorsOf(body).map(({ path: where, message }) => [where, message])),
    ).toEqual({
      name: "must be a string",
      reenrollment: "must be deny or replace",
      allowed_identity_prefixes: "must be an array",
      max_enrollments: "must be an integer",
    });
    const { body: none } = await admin.post(path, {});
    expect(errorsOf(none)[0]?.message).toBe("is required");
  });

  it("accepts a prefix whose host is a SPIFFE trust domain, underscores included", async () => {
    const allowed_identity_prefixes = ["spiffe://fleet_eu.test/host/", "https://a.test:8443/h/"];
    expect(await create({ allowed_identity_prefixes })).toMatchObject({
      status: 201,
      body: { allowed_identity_prefixes },
    });
  });

  it("rejects an unknown query parameter, so that a dry run on the wrong route writes nothing", async () => {
    const { status, body } = await admin.post(`${path}?dry_run=true`, {});
    expect({ status, path: errorsOf(body)[0]?.path }).toEqual({ status: 422, path: "dry_run" });
  });

  it("freezes a policy finally: a second freeze changes nothing, and no token can be created", async () => {
    const { body: policy } = await create();
    const freeze = (body?: object) =>
      api("POST", `${path}/${policy.id}/freeze`, { as: "admin", ...(body ? { body } : {}) });
    for (const reason_code of ["", "Upper", "1st", "a-b", "a".repeat(65)])
      expect((await freeze({ reason_code })).status).toBe(422);
    const first = await freeze({ reason_code: "rollout_done" });
    expect(first.body).toMatchObject({
      state: "frozen",
      frozen_at: clock.iso(),
    });
    await clock.advance(1000);
    expect((await freeze({ reason_code: `a${"9_".repeat(31)}b` })).body).toEqual(first.body);
    const events = sql`select reason_code from audit_event
      where action = 'enrollment_policy.freeze' and target_id = ${policy.id}`;
    expect(await test.db.execute(events)).toEqual([{ reason_code: "rollout_done" }]);
    expect((await createToken(policy.id)).body).toMatchObject({
      code: "policy_frozen",
    });
    const nobody = "01920000-0000-7000-8000-0000000000ff";
    expect((await admin.post(`${path}/${nobody}/freeze`)).status).toBe(404);
    expect((await admin.post(`${path}/not-an-id/freeze`)).status).toBe(422);
  });
});

describe("bootstrap tokens", () => {
  it("E11: a token lives for an hour by default and seven days at most", async () => {
    const { body: policy } = await create();
    const seconds = async (value?: number) => {
      const { body } = await createToken(
        policy.id,
        value === undefined ? {} : { ttl_seconds: value },
      );
      return (Date.parse(String(body.expires_at)) - clock.now()) / 1000;
    };
    expect([await seconds(), await seconds(0), await seconds(1), await seconds(604_800)]).toEqual([
      3600, 3600, 1, 604_800,
    ]);
    for (const value of [604_801, -1, 2 ** 53, "60", 0.5])
      expect({
        value,
        status: (await createToken(policy.id, { ttl_seconds: value })).status,
      }).toEqual({
        value,
        status: 422,
      });
    expect((await createToken(policy.id, { max_uses: -1 })).status).toBe(422);
  });

  it("only the response of its creation shows a raw token, and forbids caching", async () => {
    const { body: policy } = await create();
    const { body, headers } = await createToken(policy.id, { bound_device_id: "web-1" });
    expect(isWellFormedToken(String(body.token))).toBe(true);
    expect(body.token_prefix).toBe(String(body.token).slice(0, 12));
    expect(headers.get("cache-control")).toBe("no-store");
    const revoke = () => admin.post(`/v1/collector/tokens/${body.id}/revoke`);
    const revoked = await revoke();
    expect(revoked.body).toMatchObject({ id: body.id, state: "revoked" });
    expect(revoked.body).not.toHaveProperty("token");
    expect((await revoke()).body).toEqual(revoked.body);
  });
});
