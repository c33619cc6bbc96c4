import { describe, expect, it } from "vitest";
import { createTestCsr, createTestKey } from "../../../scripts/lab/ca/test-pki.ts";
import { createTestToken, identityPrefix } from "../../../tests/support/collector.ts";
import {
  createRefusingCore,
  type ExpectedRefusal,
  type RefusableAnswer,
} from "../../../tests/support/refusals.ts";
import { generateToken } from "../../domain/enrollment/bootstrap-token.ts";

/** Every refusal of enrollment: its status, code, action and audit event. */
const test = await createRefusingCore();
const { api, clock, signBy, newAddress, deviceOf, admin, eventsFrom } = test;

const requestOf = async (deviceId: string, over: object = {}) => ({
  csr_pem: await createTestCsr({ key: await createTestKey(), uri: identityPrefix + deviceId }),
  device_id: deviceId,
  platform: "linux/amd64",
  collector_version: "1.0.0",
  ...over,
});
const enroll = (token: string, body: object, from: string): Promise<RefusableAnswer> =>
  api("POST", "/v1/collector/enroll", { as: { bearer: token }, body, from });
/** A token of a policy and of its own terms. */
const tokenOf = async (policy: object = {}, terms: object = {}) => {
  const { policyId } = await createTestToken(test, { ...policy });
  const path = `/v1/collector/enrollment-policies/${policyId}/tokens`;
  const { body } = await api("POST", path, { as: "admin", body: { max_uses: 0, ...terms } });
  return { policyId, id: String(body.id), token: String(body.token) };
};

const invalid = { status: 401, code: "token_invalid", action: "stop" } as const;
const enrollments: [
  expected: ExpectedRefusal & { reason: string },
  provoke: (from: string) => Promise<RefusableAnswer>,
][] = [
  [
    { ...invalid, reason: "token_missing" },
    async (from) =>
      api("POST", "/v1/collector/enroll", { body: await requestOf(deviceOf(from)), from }),
  ],
  [
    { ...invalid, reason: "token_malformed" },
    async (from) => enroll("nonsense", await requestOf(deviceOf(from)), from),
  ],
  [
    { ...invalid, reason: "token_unknown" },
    async (from) => enroll(generateToken(test.core.entropy), await requestOf(deviceOf(from)), from),
  ],
  [
    { ...invalid, reason: "token_revoked" },
    async (from) => {
      const { token, id } = await tokenOf();
      await admin(`tokens/${id}/revoke`);
      return enroll(token, await requestOf(deviceOf(from)), from);
    },
  ],
  [
    { ...invalid, reason: "token_expired" },
    async (from) => {
      const { token } = await tokenOf({}, { ttl_seconds: 1 });
      await clock.advance(1000);
      return enroll(token, await requestOf(deviceOf(from)), from);
    },
  ],
  [
    { ...invalid, reason: "token_exhausted" },
    async (from) => {
      const { token } = await tokenOf({}, { max_uses: 1 });
      await enroll(token, await requestOf(`${deviceOf(from)}-first`), from);
      return enroll(token, await requestOf(deviceOf(from)), from);
    },
  ],
  [
    { status: 403, code: "policy_frozen", action: "stop", reason: "policy_frozen" },
    async (from) => {
      const { token, policyId } = await tokenOf();
      await admin(`enrollment-policies/${policyId}/freeze`);
      return enroll(token, await requestOf(deviceOf(from)), from);
    },
  ],
  [
    { status: 403, code: "source_not_allowed", action: "stop", reason: "source_not_allowed" },
    async (from) => {
      const { token } = await tokenOf({}, { allowed_source_cidrs: ["192.0.2.0/24"] });
      return enroll(token, await requestOf(deviceOf(from)), from);
    },
  ],
  [
    {
      status: 403,
      code: "identity_not_allowed",
      action: "fix_request",
      reason: "identity_not_allowed",
    },
    async (from) =>
      enroll(
        (await tokenOf()).token,
        await requestOf(deviceOf(from), { device_id: "another" }),
        from,
      ),
  ],
  [
    { status: 403, code: "device_not_allowed", action: "stop", reason: "device_not_allowed" },
    async (from) => {
      const { token } = await tokenOf({}, { bound_device_id: "another" });
      return enroll(token, await requestOf(deviceOf(from)), from);
    },
  ],
  [
    { status: 403, code: "platform_not_allowed", action: "stop", reason: "platform_not_allowed" },
    async (from) => {
      const { token } = await tokenOf({ allowed_platforms: ["darwin"] });
      return enroll(token, await requestOf(deviceOf(from)), from);
    },
  ],
  [
    {
      status: 403,
      code: "enrollment_limit_reached",
      action: "stop",
      reason: "enrollment_limit_reached",
    },
    async (from) => {
      const { token } = await tokenOf({ max_enrollments: 1 });
      await enroll(token, await requestOf(`${deviceOf(from)}-first`), from);
      return enroll(token, await requestOf(deviceOf(from)), from);
    },
  ],
  [
    {
      status: 429,
      code: "enrollment_rate_limited",
      action: "retry",
      reason: "enrollment_rate_limited",
    },
    async (from) => {
      const { token } = await tokenOf({ max_enrollments_per_hour: 1 });
      await enroll(token, await requestOf(`${deviceOf(from)}-first`), from);
      return enroll(token, await requestOf(deviceOf(from)), from);
    },
  ],
  [
    { status: 403, code: "identity_revoked", action: "stop", reason: "identity_revoked" },
    async (from) => {
      const { token } = await tokenOf({ reenrollment: "replace" });
      const { body } = await enroll(token, await requestOf(deviceOf(from)), from);
      await admin(`identities/${body.identity_id}/revoke`);
      return enroll(token, await requestOf(deviceOf(from)), from);
    },
  ],
  [
    { status: 409, code: "identity_exists", action: "stop", reason: "identity_exists" },
    async (from) => {
      const { token } = await tokenOf();
      await enroll(token, await requestOf(deviceOf(from)), from);
      return enroll(token, await requestOf(deviceOf(from)), from);
    },
  ],
  [
    {
      status: 409,
      code: "enrollment_in_progress",
      action: "retry",
      reason: "enrollment_in_progress",
    },
    async (from) => {
      const { token } = await tokenOf();
      const body = await requestOf(deviceOf(from));
      const second = Promise.withResolvers<RefusableAnswer>();
      signBy((signer) => async (request) => {
        signBy();
        second.resolve(await enroll(token, body, from));
        return signer.sign(request);
      });
      expect((await enroll(token, body, from)).status).toBe(201);
      return second.promise;
    },
  ],
  [
    { status: 422, code: "csr_invalid", action: "fix_request", reason: "not_pem" },
    async (from) =>
      enroll((await tokenOf()).token, await requestOf(deviceOf(from), { csr_pem: "junk" }), from),
  ],
  [
    { status: 429, code: "throttled", action: "retry", reason: "token_malformed" },
    async (from) => {
      const body = await requestOf(deviceOf(from));
      for (let failure = 0; failure < 10; failure++) await enroll("nonsense", body, from);
      // The next minute's first refusal has its own event.
      await clock.advance(60_000);
      return enroll("nonsense", body, from);
    },
  ],
  [
    { status: 502, code: "signer_failed", action: "retry", reason: "signer_failed" },
    async (from) => {
      signBy(() => () => {
        throw new Error("the device is locked");
      });
      return enroll((await tokenOf()).token, await requestOf(deviceOf(from)), from);
    },
  ],
];

describe("refused enrollments", () => {
  it.each(enrollments)("$code, for $reason", async ({ status, code, action, reason }, provoke) => {
    const from = newAddress();
    const answer = await provoke(from).finally(() => signBy());
    expect(answer).toMatchObject({
      status,
      body: { status, code, action, type: `urn:svc:problem:${code}` },
    });
    expect((await eventsFrom(from)).at(-1)).toMatchObject({
      action: "collector.enroll",
      reason,
      actorType: "collector",
      requestId: answer.body.request_id,
      details: { code },
    });
  });
});
