import { describe, expect, it } from "vitest";
import { isWellFormedToken } from "#functions/domain/enrollment/bootstrap-token.ts";
import { useTestCore } from "#tests/support/core.ts";

const test = await useTestCore();
const { admin, clock } = test;

const path = "/v1/collector/enrollment-policies";
const prefix = "spiffe://fleet.test/host/";
let names = 0;
const create = (fields: object = {}) =>
  admin.post(path, { name: `policy ${++names}`, allowed_identity_prefixes: [prefix], ...fields });
const createToken = (policyId: unknown, fields: object = {}) =>
  admin.post(`${path}/${policyId}/tokens`, fields);
const faultAt = (at: string) => ({ body: { code: "validation_failed", errors: [{ path: at }] } });
const nobody = "01920000-0000-7000-8000-0000000000ff";

describe("enrollment policies", () => {
  it("creates a policy with the documented defaults, its creator and time, audited in the same transaction", async () => {
    const { body } = await create({ name: "defaults" });
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
    expect(await test.events(`target=${body.id}`)).toMatchObject([
      { actor: { id: test.people.admin.userId }, outcome: "success" },
    ]);
  });

  it("rejects a policy name that is taken", async () => {
    await create({ name: "taken" });
    expect((await create({ name: "taken" })).body.code).toBe("policy_name_taken");
  });

  it("E11: caps the certificate's lifetime at 30 days, and rejects less than 300 s and non-integers", async () => {
    const ttl = (value: unknown) => create({ certificate_ttl_seconds: value });
    expect((await ttl(300)).body.certificate_ttl_seconds).toBe(300);
    for (const value of [2_592_000, 2_592_001, 2 ** 53 - 1])
      expect((await ttl(value)).body.certificate_ttl_seconds).toBe(2_592_000);
    for (const value of [299, 0, -1, 2 ** 53, 300.5, "600", null, true])
      expect(await ttl(value), `${value}`).toMatchObject(faultAt("certificate_ttl_seconds"));
  });

  it.each([
    ["a negative limit", "max_enrollments", -1],
    ["a negative rate", "max_enrollments_per_hour", -1],
    ["a field that is not known", "max_enrolments", 5],
    ["no prefix", "allowed_identity_prefixes", []],
    ["a prefix without its slash", "allowed_identity_prefixes.0", "spiffe://a.test/h"],
    ["a prefix in upper case", "allowed_identity_prefixes.0", "SPIFFE://a.test/"],
    ["a prefix with a query", "allowed_identity_prefixes.0", "https://a.test/?x=/"],
    ["an address that is no CIDR", "allowed_source_cidrs.0", "10.0.0.1"],
    ["a CIDR of two parts", "allowed_source_cidrs.0", "127.5/16"],
    ["a CIDR in octal", "allowed_source_cidrs.0", "010.0.0.0/8"],
    ["a CIDR in hexadecimal", "allowed_source_cidrs.0", "0x7f.0.0.0/8"],
    ["a CIDR with a leading zero in its length", "allowed_source_cidrs.0", "10.0.0.0/08"],
    ["a CIDR with a zone", "allowed_source_cidrs.0", "fe80::%eth0/64"],
    ["a platform that is none", "allowed_platforms.0", "linux/amd64/v2"],
    ["a name with a control character", "name", "a\u0000b"],
    ["a label without a value", "labels.env", ""],
  ])("refuse %s, by path and without quoting the value", async (_, where, value) => {
    const [field = "", entry] = where.split(".");
    const nested = entry === "0" ? [value] : { [`${entry}`]: value };
    const refused = await create({ [field]: entry === undefined ? value : nested });
    expect(refused).toMatchObject(faultAt(where));
    if (value !== "" && typeof value === "string")
      expect(JSON.stringify(refused.body.errors)).not.toContain(value);
  });

  it("refuses an array as a body: it is not an object without fields", async () => {
    for (const url of [path, `${path}/${nobody}/tokens`])
      expect((await admin.post(url, [])).body).toMatchObject({
        status: 422,
        errors: [{ path: "", message: "must be an object" }],
      });
  });

  it("reports what is expected in words, for a wrong type too", async () => {
    const wrong = {
      name: 5,
      reenrollment: "maybe",
      allowed_identity_prefixes: "x",
      max_enrollments: "many",
    };
    const { errors } = (await create(wrong)).body;
    for (const [at, message] of Object.entries({
      name: "must be a string",
      reenrollment: "must be deny or replace",
      allowed_identity_prefixes: "must be an array",
      max_enrollments: "must be an integer",
    }))
      expect(errors).toContainEqual({ path: at, message });
    const none = await admin.post(path, {});
    expect(none.body.errors).toContainEqual({ path: "name", message: "is required" });
  });

  it("accepts a prefix whose host is a SPIFFE trust domain, underscores included", async () => {
    const allowed_identity_prefixes = ["spiffe://fleet_eu.test/host/", "https://a.test:8443/h/"];
    const { body } = await create({ allowed_identity_prefixes });
    expect(body).toMatchObject({ allowed_identity_prefixes });
  });

  it("rejects an unknown query parameter, so that a dry run on the wrong route writes nothing", async () => {
    expect(await admin.post(`${path}?dry_run=true`, {})).toMatchObject(faultAt("dry_run"));
  });

  it("freezes a policy finally: a second freeze changes nothing, and no token can be created", async () => {
    const { body: policy } = await create();
    const freeze = (reason_code: string) =>
      admin.post(`${path}/${policy.id}/freeze`, { reason_code });
    for (const reason of ["", "Upper", "1st", "a-b", "a".repeat(65)])
      expect((await freeze(reason)).status).toBe(422);
    const first = await freeze("rollout_done");
    expect(first.body).toMatchObject({ state: "frozen", frozen_at: clock.iso() });
    await clock.advance(1000);
    expect((await freeze(`a${"9_".repeat(31)}b`)).body).toEqual(first.body);
    const events = await test.events(`action=enrollment_policy.freeze&target=${policy.id}`);
    expect(events).toMatchObject([{ reason_code: "rollout_done" }]);
    expect((await createToken(policy.id)).body.code).toBe("policy_frozen");
    expect((await admin.post(`${path}/${nobody}/freeze`)).status).toBe(404);
    expect((await admin.post(`${path}/not-an-id/freeze`)).status).toBe(422);
  });
});

describe("bootstrap tokens", () => {
  it("E11: a token lives for an hour by default and seven days at most", async () => {
    const { body: policy } = await create();
    for (const [ttl_seconds, seconds] of [
      [undefined, 3600],
      [0, 3600],
      [1, 1],
      [604_800, 604_800],
    ]) {
      const { body } = await createToken(policy.id, { ttl_seconds });
      expect(body.expires_at).toBe(clock.iso(1000 * (seconds ?? 0)));
    }
    for (const ttl_seconds of [604_801, -1, 2 ** 53, "60", 0.5])
      expect((await createToken(policy.id, { ttl_seconds })).status, `${ttl_seconds}`).toBe(422);
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
