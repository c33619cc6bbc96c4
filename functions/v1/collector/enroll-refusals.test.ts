import { and, eq } from "drizzle-orm";
import { afterAll, describe, expect, it } from "vitest";
import { auditEvent } from "../../../drizzle/schema/audit.ts";
import { createTestCsr, createTestKey } from "../../../scripts/lab/ca/test-pki.ts";
import { createTestToken, identityPrefix } from "../../../tests/support/collector.ts";
import { type Answer, createTestCore } from "../../../tests/support/core.ts";
import { generateToken } from "../../domain/enrollment/bootstrap-token.ts";
import type { ProblemCode } from "../../problems.ts";
import type { Signer } from "../../signer/signer.ts";

/** Every refusal of enrollment: its status, code, action and audit event. */
let sign = (signer: Signer): Signer["sign"] => signer.sign;
const test = await createTestCore({
  wrapSigner: (signer) => ({ ...signer, sign: (request) => sign(signer)(request) }),
});
afterAll(() => test.close());
const { api, clock, db } = test;
const failing = (): never => {
  throw new Error("the device is locked");
};
const working = (signer: Signer) => signer.sign;

let rows = 0;
/** Each row calls from an address of its own, which identifies its audit events. */
const newAddress = () => `10.9.${++rows >> 8}.${rows & 255}`;
const deviceOf = (from: string) => `host-${from}`;
const admin = (path: string) => api("POST", `/v1/collector/${path}`, { as: "admin" });
const eventsFrom = async (from: string) => {
  const found = and(eq(auditEvent.remoteAddr, from), eq(auditEvent.outcome, "failure"));
  return db.select().from(auditEvent).where(found).orderBy(auditEvent.id);
};

type Reply = Answer<Record<string, unknown>>;
interface Expected {
  status: number;
  code: ProblemCode;
  action: string;
}

const requestOf = async (deviceId: string, over: object = {}) => ({
  csr_pem: await createTestCsr({ key: await createTestKey(), uri: identityPrefix + deviceId }),
  device_id: deviceId,
  platform: "linux/amd64",
  collector_version: "1.0.0",
  ...over,
});
const enroll = (token: string, body: object, from: string): Promise<Reply> =>
  api("POST", "/v1/collector/enroll", { as: { bearer: token }, body, from });
/** A token of a policy and of its own terms. */
const tokenOf = async (policy: object = {}, terms: object = {}) => {
  const { policyId } = await createTestToken(test, { ...policy });
  const path = `/v1/collector/enrollment-policies/${policyId}/tokens`;
  const { body } = await api("POST", path, { as: "admin", body: { max_uses: 0, ...terms } });
  return { policyId, id: String(body.id), token: String(body.token) };
};

const invalid = { status: 401, code: "token_invalid", action: "stop" } as const;
const enrollments: [expected: Expected & { reason: string }, provoke: (from: string) => Promise<Reply>][] = [
  [
    { ...invalid, reason: "token_missing" },
    async (from) => api("POST", "/v1/collector/enroll", { body: await requestOf(deviceOf(from)), from }),
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
    { status: 403, code: "identity_not_allowed", action: "fix_request", reason: "identity_not_allowed" },
    async (from) => enroll((await tokenOf()).token, await requestOf(deviceOf(from), { device_id: "another" }), from),
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
    { status: 403, code: "enrollment_limit_reached", action: "stop", reason: "enrollment_limit_reached" },
    async (from) => {
      const { token } = await tokenOf({ max_enrollments: 1 });
      await enroll(token, await requestOf(`${deviceOf(from)}-first`), from);
      return enroll(token, await requestOf(deviceOf(from)), from);
    },
  ],
  [
    { status: 429, code: "enrollment_rate_limited", action: "retry", reason: "enrollment_rate_limited" },
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
    { status: 409, code: "enrollment_in_progress", action: "retry", reason: "enrollment_in_progress" },
    async (from) => {
      const { token } = await tokenOf();
      const body = await requestOf(deviceOf(from));
      const second = Promise.withResolvers<Reply>();
      sign = (signer) => async (request) => {
        sign = working;
        second.resolve(await enroll(token, body, from));
        return signer.sign(request);
      };
      expect((await enroll(token, body, from)).status).toBe(201);
      return second.promise;
    },
  ],
  [
    { status: 422, code: "csr_invalid", action: "fix_request", reason: "not_pem" },
    async (from) => enroll((await tokenOf()).token, await requestOf(deviceOf(from), { csr_pem: "junk" }), from),
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
      sign = () => failing;
      return enroll((await tokenOf()).token, await requestOf(deviceOf(from)), from);
    },
  ],
];

describe("refused enrollments", () => {
  it.each(enrollments)("$code, for $reason", async ({ status, code, action, reason }, provoke) => {
    const from = newAddress();
    const answer = await provoke(from).finally(() => {
      sign = working;
    });
    expect(answer).toMatchObject({ status, body: { status, code, action, type: `urn:svc:problem:${code}` } });
    expect((await eventsFrom(from)).at(-1)).toMatchObject({
      action: "collector.enroll",
      reason,
      actorType: "collector",
      requestId: answer.body.request_id,
      details: { code },
    });
  });
});
