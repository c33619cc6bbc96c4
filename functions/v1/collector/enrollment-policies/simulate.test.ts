import { hash } from "node:crypto";
import { sql } from "drizzle-orm";
import fc from "fast-check";
import { expect, it } from "vitest";
import {
  createTestToken,
  enrollmentOf,
  identityPrefix,
  postEnrollment,
} from "#tests/support/collector.ts";
import { useTestCore } from "#tests/support/core.ts";

const test = await useTestCore();
const { auditor, admin, clock } = test;

interface Simulation {
  allowed: boolean;
  identity: string;
  code: string | null;
  rule: string | null;
  checks: { rule: string; outcome: string; detail: string }[];
}
const usual = { device_id: "web-1", address: "10.1.2.3", platform: "linux/amd64" };
const simulate = async (policyId: string, body: object = {}) => {
  const path = `/v1/collector/enrollment-policies/${policyId}/simulation`;
  const answer = await auditor.post<Simulation & { status?: number }>(path, { ...usual, ...body });
  return answer.body;
};
const digest = (token: string) => hash("sha256", token, "hex");
const enroll = async (
  token: string,
  { device_id, address, platform }: typeof usual,
  prefix = identityPrefix,
) => {
  const body = { ...(await enrollmentOf(device_id, { prefix })), platform };
  return postEnrollment(test, token, body, { from: address });
};

type Values<Of> = Of extends fc.Arbitrary<infer Value> ? Value : never;

it("names the rule that decides, and every other rule that would refuse", async () => {
  const { policyId } = await createTestToken(test, {
    allowed_platforms: ["darwin"],
    allowed_source_cidrs: ["192.0.2.0/24"],
  });
  const refused = await simulate(policyId);
  expect(refused).toMatchObject({
    allowed: false,
    identity: `${identityPrefix}web-1`,
    code: "source_not_allowed",
    rule: "policy_source_cidrs",
    detail: "the policy allows 192.0.2.0/24, and not 10.1.2.3",
  });
  expect(
    refused.checks.filter(({ outcome }) => outcome === "refused").map(({ rule }) => rule),
  ).toEqual(["policy_source_cidrs", "policy_platforms"]);
  expect(refused.checks).toContainEqual({
    rule: "token_known",
    outcome: "not_applicable",
    detail: "no token was given",
  });
  const admitted = await simulate(policyId, { address: "192.0.2.7", platform: "darwin/arm64" });
  expect(admitted).toMatchObject({ allowed: true, code: null, rule: null });
});

it("spends no token, takes that of another policy for unknown, and writes nothing", async () => {
  const { token, policyId } = await createTestToken(test);
  const other = await createTestToken(test);
  const counts = () =>
    test.db.execute(sql`select (select count(*)::int from audit_event) as events,
        (select count(*)::int from enrollment_reservation) as reservations,
        (select count(*)::int from enrollment_failure) as failures,
        (select sum(use_count)::int from bootstrap_token) as uses`);
  const before = await counts();
  const simulateToken = (raw: string) => simulate(policyId, { token_sha256: digest(raw) });
  expect(await simulateToken(token)).toMatchObject({ allowed: true });
  expect(await simulateToken("another")).toMatchObject({ code: "token_invalid" });
  expect(await simulateToken(other.token)).toMatchObject({ rule: "token_known" });
  expect(await counts()).toEqual(before);
});

it("needs an existing policy, an address and a platform", async () => {
  const { policyId } = await createTestToken(test);
  const path = `/v1/collector/enrollment-policies/${policyId}/simulation`;
  expect((await auditor.post(path, { ...usual, address: "here" })).status).toBe(422);
  const unknown = path.replace(policyId, "01920000-0000-7000-8000-0000000000a1");
  expect((await auditor.post(unknown, usual)).status).toBe(404);
});

it("decides as enrollment does, for any policy, token, host and history", async () => {
  const subsetOf = (...values: string[]) => fc.constantFrom([], values);
  const policies = fc.record({
    allowed_platforms: subsetOf("linux", "darwin/arm64"),
    allowed_source_cidrs: subsetOf("10.0.0.0/8", "2001:db8::/32"),
    max_enrollments: fc.constantFrom<number>(0, 0, 0, 2),
    max_enrollments_per_hour: fc.constantFrom<number>(0, 0, 0, 1),
    reenrollment: fc.constantFrom<string>("deny", "replace"),
  });
  const tokens = fc.record({
    max_uses: fc.constantFrom<number>(0, 0, 2),
    ttl_seconds: fc.constantFrom<number>(60, 3600),
    allowed_source_cidrs: subsetOf("10.0.0.0/9"),
    bound_device_id: fc.constantFrom<string | null>(null, null, null, "a"),
  });
  const uses = fc.record({
    device_id: fc.constantFrom<string>("a", "b", "c"),
    platform: fc.constantFrom<string>(
      "linux/amd64",
      "linux/amd64",
      "darwin/arm64",
      "windows/amd64",
    ),
    network: fc.constantFrom<string>("10.1.", "10.1.", "10.200.", "192.0."),
    prefix: fc.constantFrom<string>(...Array(7).fill(identityPrefix), "https://fleet.test/other/"),
    advanceMs: fc.constantFrom<number>(1, 1, 61_000, 3_601_000),
    before: fc.constantFrom<string>(
      ...Array(20).fill("nothing"),
      "freeze",
      "revoke token",
      "revoke host",
      "revoke host",
    ),
  });
  const seen = new Set<string | null>();
  let addresses = 0;
  let fleets = 0;
  const histories = fc.array(uses, { minLength: 3, maxLength: 8 });
  const property = fc.asyncProperty(policies, tokens, histories, run);
  async function run(policy: object, terms: object, steps: Values<typeof uses>[]) {
    const fleet = `https://fleet.test/${++fleets}/`;
    const prefixes = { allowed_identity_prefixes: [fleet] };
    const { policyId, tokenId, token } = await createTestToken(
      test,
      { ...policy, ...prefixes },
      terms,
    );
    let hostId: string | undefined;
    for (const { device_id, platform, network, prefix, advanceMs, before } of steps) {
      await clock.advance(advanceMs);
      if (before === "freeze")
        await admin.post(`/v1/collector/enrollment-policies/${policyId}/freeze`);
      if (before === "revoke token") await admin.post(`/v1/collector/tokens/${tokenId}/revoke`);
      if (before === "revoke host" && hostId !== undefined) await test.revoke(hostId);
      addresses += 1;
      const address = `${network}${addresses >> 8}.${addresses & 255}`;
      const use = { device_id, platform, address };
      const identity_prefix = prefix === identityPrefix ? fleet : prefix;
      const token_sha256 = digest(token);
      const simulated = await simulate(policyId, { ...use, identity_prefix, token_sha256 });
      const real = await enroll(token, use, identity_prefix);
      if (real.status === 201) hostId = String(real.body.identity_id);
      seen.add(simulated.rule);
      const { code = null } = real.body;
      expect(simulated).toMatchObject({ allowed: real.status === 201, code });
    }
  }
  // Histories that random ones seldom reach.
  const open = {
    allowed_platforms: [],
    allowed_source_cidrs: [],
    max_enrollments: 0,
    max_enrollments_per_hour: 0,
  };
  const deny = { ...open, reenrollment: "deny" };
  const anyToken = {
    max_uses: 0,
    ttl_seconds: 3600,
    allowed_source_cidrs: [],
    bound_device_id: null,
  };
  const step = (device_id: string, before = "nothing") => ({
    device_id,
    platform: "linux/amd64",
    network: "10.1.",
    prefix: identityPrefix,
    advanceMs: 1,
    before,
  });
  const examples: [Values<typeof policies>, Values<typeof tokens>, Values<typeof uses>[]][] = [
    [deny, anyToken, [step("a"), step("a"), step("a", "revoke host")]],
    [{ ...deny, reenrollment: "replace" }, anyToken, [step("a"), step("a")]],
    [{ ...deny, max_enrollments: 1 }, anyToken, [step("a"), step("b")]],
    [{ ...deny, max_enrollments_per_hour: 1 }, anyToken, [step("a"), step("b")]],
    [deny, { ...anyToken, max_uses: 1 }, [step("a"), step("b")]],
  ];
  await fc.assert(property, { numRuns: 20, seed: 20_261_122, endOnFailure: true, examples });
  // The property covers what it is about: every rule has decided at least once, except those of simultaneous requests.
  const rules =
    "identity_not_revoked identity_prefix max_enrollments max_enrollments_per_hour policy_active policy_platforms policy_source_cidrs reenrollment token_active token_device token_source_cidrs token_uses";
  expect(seen).toEqual(new Set([null, ...rules.split(" ")]));
});

it("reports an enrollment of the same identity that is under way, until its reservation expires", async () => {
  const { policyId } = await createTestToken(test);
  const expiresAt = clock.iso(1000);
  await test.db.execute(sql`insert into enrollment_reservation
      (id, policy_id, token_id, identity, spki_sha256, first_enrollment, serial_number, expires_at)
      select ${crypto.randomUUID()}, ${policyId}, id, ${`${identityPrefix}web-9`}, ${"\\x00"}::bytea, true, '00', ${expiresAt}
      from bootstrap_token where policy_id = ${policyId}`);
  const simulated = () => simulate(policyId, { device_id: "web-9" });
  expect(await simulated()).toMatchObject({ rule: "no_other_enrollment" });
  await clock.advance(1000);
  expect(await simulated()).toMatchObject({ allowed: true });
});
