import { expect, it } from "vitest";
import { generateToken } from "#functions/domain/enrollment/bootstrap-token.ts";
import { quantile } from "#scripts/lab/quantile.ts";
import { createTestToken, enrollmentOf } from "#tests/support/collector.ts";
import { isSlow } from "#tests/support/is-slow.ts";
import { createRefusingCore, type RefusableAnswer } from "#tests/support/refusals.ts";

/** Every refusal of enrollment: its status, code, action and audit event. */
const test = await createRefusingCore();
const { api, clock, signBy, newAddress, deviceOf, admin, eventsFrom } = test;

const requestOf = async (deviceId: string, over: object = {}) => ({
  ...(await enrollmentOf(deviceId)),
  ...over,
});
const enroll = (token: string, body: object, from: string) =>
  api("POST", "/v1/collector/enroll", { as: { bearer: token }, body, from });
/** A token of a policy and of its own terms. */
const tokenOf = async (policy: object = {}, terms: object = {}) => {
  const { policyId } = await createTestToken(test, { ...policy });
  const path = `/v1/collector/enrollment-policies/${policyId}/tokens`;
  const { body } = await api("POST", path, { as: "admin", body: { max_uses: 0, ...terms } });
  return { policyId, id: String(body.id), token: String(body.token) };
};

type Made = Awaited<ReturnType<typeof tokenOf>>;
/** Enrolls with a token of a policy and of its own terms, after what `before` does. */
const enrolling =
  (policy: object, terms: object, before: (made: Made, from: string) => unknown, over?: object) =>
  async (from: string) => {
    const made = await tokenOf(policy, terms);
    await before(made, from);
    return enroll(made.token, await requestOf(deviceOf(from), over), from);
  };
const nothing = () => undefined;
const another = async ({ token }: Made, from: string) =>
  enroll(token, await requestOf(`${deviceOf(from)}-first`), from);
const same = async ({ token }: Made, from: string) =>
  enroll(token, await requestOf(deviceOf(from)), from);

/** By the reason that is audited; without another code, that is the code. */
const enrollments: [
  reason: string,
  status: number,
  action: string,
  provoke: (from: string) => Promise<RefusableAnswer>,
  code?: string,
][] = [
  [
    "token_missing",
    401,
    "stop",
    async (from) =>
      api("POST", "/v1/collector/enroll", { body: await requestOf(deviceOf(from)), from }),
    "token_invalid",
  ],
  [
    "token_malformed",
    401,
    "stop",
    async (from) => enroll("nonsense", await requestOf(deviceOf(from)), from),
    "token_invalid",
  ],
  [
    "token_unknown",
    401,
    "stop",
    async (from) => enroll(generateToken(test.core.entropy), await requestOf(deviceOf(from)), from),
    "token_invalid",
  ],
  [
    "token_revoked",
    401,
    "stop",
    enrolling({}, {}, ({ id }) => admin(`tokens/${id}/revoke`)),
    "token_invalid",
  ],
  [
    "token_expired",
    401,
    "stop",
    enrolling({}, { ttl_seconds: 1 }, () => clock.advance(1000)),
    "token_invalid",
  ],
  ["token_exhausted", 401, "stop", enrolling({}, { max_uses: 1 }, another), "token_invalid"],
  [
    "policy_frozen",
    403,
    "stop",
    enrolling({}, {}, ({ policyId }) => admin(`enrollment-policies/${policyId}/freeze`)),
  ],
  [
    "source_not_allowed",
    403,
    "stop",
    enrolling({ allowed_source_cidrs: ["192.0.2.0/24"] }, {}, nothing),
  ],
  [
    "identity_not_allowed",
    403,
    "fix_request",
    enrolling({}, {}, nothing, { device_id: "another" }),
  ],
  ["device_not_allowed", 403, "stop", enrolling({}, { bound_device_id: "another" }, nothing)],
  ["platform_not_allowed", 403, "stop", enrolling({ allowed_platforms: ["darwin"] }, {}, nothing)],
  ["enrollment_limit_reached", 403, "stop", enrolling({ max_enrollments: 1 }, {}, another)],
  [
    "enrollment_rate_limited",
    429,
    "retry",
    enrolling({ max_enrollments_per_hour: 1 }, {}, another),
  ],
  [
    "identity_revoked",
    403,
    "stop",
    enrolling({ reenrollment: "replace" }, {}, async (made, from) => {
      const { body } = await same(made, from);
      return admin(`identities/${body.identity_id}/revoke`);
    }),
  ],
  ["identity_exists", 409, "stop", enrolling({}, {}, same)],
  [
    "enrollment_in_progress",
    409,
    "retry",
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
  ["not_pem", 422, "fix_request", enrolling({}, {}, nothing, { csr_pem: "junk" }), "csr_invalid"],
  [
    "token_malformed",
    429,
    "retry",
    async (from) => {
      const body = await requestOf(deviceOf(from));
      for (let failure = 0; failure < 10; failure++) await enroll("nonsense", body, from);
      // The next minute's first refusal has its own event.
      await clock.advance(60_000);
      return enroll("nonsense", body, from);
    },
    "throttled",
  ],
  [
    "signer_failed",
    502,
    "retry",
    enrolling({}, {}, () =>
      signBy(() => () => {
        throw new Error("the device is locked");
      }),
    ),
  ],
];

it.each(enrollments)("%s (%i)", async (reason, status, action, provoke, code = reason) => {
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

it("E4: have one answer for every unusable token", async () => {
  const unusable = enrollments.filter((row) => row[4] === "token_invalid").slice(1);
  const answers = await Promise.all(unusable.map(([, , , provoke]) => provoke(newAddress())));
  const bodies = answers.map(({ body }) => ({ ...body, request_id: "" }));
  expect(bodies).toEqual(bodies.map(() => bodies[0]));
});

// An exhausted token is rejected after the body, as the request may be a retry.
it.runIf(isSlow)("E4: take as long for an unknown, an expired and a revoked token", async () => {
  const expired = await tokenOf({}, { ttl_seconds: 1 });
  await clock.advance(1000);
  const revoked = await tokenOf();
  await admin(`tokens/${revoked.id}/revoke`);
  const body = await requestOf("timed");
  const times = ["", expired.token, revoked.token].map((token) => ({ token, ms: [] as number[] }));
  for (let use = 0; use < 200; use++)
    for (const { token, ms } of times) {
      const startedAt = performance.now();
      await enroll(token || generateToken(test.core.entropy), body, newAddress());
      ms.push(performance.now() - startedAt);
    }
  const at = (fraction: number) => times.map(({ ms }) => quantile(Float64Array.from(ms), fraction));
  expect(Math.max(...at(0.1))).toBeLessThan(Math.min(...at(0.9)));
});
