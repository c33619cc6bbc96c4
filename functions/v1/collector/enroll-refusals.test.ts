import { expect, it } from "vitest";
import { generateToken } from "#functions/domain/enrollment/bootstrap-token.ts";
import { quantile } from "#scripts/lab/quantile.ts";
import { createRefusingCore, type RefusableAnswer } from "#tests/support/access/refusals.ts";
import { createTestToken, enrollmentOf, postEnrollment } from "#tests/support/collector.ts";
import { isSlow } from "#tests/support/is-slow.ts";

/** Every refusal of enrollment: its status, code, action and audit event. */
const test = await createRefusingCore();
const { api, clock, signBy, newAddress, deviceOf, admin, eventsFrom } = test;

type Made = Awaited<ReturnType<typeof createTestToken>>;
/** Enrolls the device of an address, by a token that is only text too. */
const enrollDevice = async (token: string, from: string, device = deviceOf(from), over = {}) =>
  postEnrollment(test, token, { ...(await enrollmentOf(device)), ...over }, { from });
const enrollSame = ({ token }: Made, from: string) => enrollDevice(token, from);
const enrollAnother = ({ token }: Made, from: string) =>
  enrollDevice(token, from, `${deviceOf(from)}-first`);
/** Enrolls with a token of a policy and of its own terms, after what `before` does. */
const enrolling =
  (
    policy: Readonly<Record<string, unknown>>,
    terms: object = {},
    before: (made: Made, from: string) => unknown = () => undefined,
    over: object = {},
  ) =>
  async (from: string) => {
    const made = await createTestToken(test, policy, terms);
    await before(made, from);
    return enrollDevice(made.token, from, deviceOf(from), over);
  };

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
      api("POST", "/v1/collector/enroll", { body: await enrollmentOf(deviceOf(from)), from }),
    "token_invalid",
  ],
  ["token_malformed", 401, "stop", (from) => enrollDevice("nonsense", from), "token_invalid"],
  [
    "token_unknown",
    401,
    "stop",
    (from) => enrollDevice(generateToken(test.core.entropy), from),
    "token_invalid",
  ],
  [
    "token_revoked",
    401,
    "stop",
    enrolling({}, {}, ({ tokenId }) => admin(`tokens/${tokenId}/revoke`)),
    "token_invalid",
  ],
  [
    "token_expired",
    401,
    "stop",
    enrolling({}, { ttl_seconds: 1 }, () => clock.advance(1000)),
    "token_invalid",
  ],
  ["token_exhausted", 401, "stop", enrolling({}, { max_uses: 1 }, enrollAnother), "token_invalid"],
  [
    "policy_frozen",
    403,
    "stop",
    enrolling({}, {}, ({ policyId }) => admin(`enrollment-policies/${policyId}/freeze`)),
  ],
  ["source_not_allowed", 403, "stop", enrolling({ allowed_source_cidrs: ["192.0.2.0/24"] })],
  [
    "identity_not_allowed",
    403,
    "fix_request",
    enrolling({}, {}, undefined, { device_id: "another" }),
  ],
  ["device_not_allowed", 403, "stop", enrolling({}, { bound_device_id: "another" })],
  ["platform_not_allowed", 403, "stop", enrolling({ allowed_platforms: ["darwin"] })],
  ["enrollment_limit_reached", 403, "stop", enrolling({ max_enrollments: 1 }, {}, enrollAnother)],
  [
    "enrollment_rate_limited",
    429,
    "retry",
    enrolling({ max_enrollments_per_hour: 1 }, {}, enrollAnother),
  ],
  [
    "identity_revoked",
    403,
    "stop",
    enrolling({ reenrollment: "replace" }, {}, async (made, from) => {
      const { body } = await enrollSame(made, from);
      return admin(`identities/${body.identity_id}/revoke`);
    }),
  ],
  ["identity_exists", 409, "stop", enrolling({}, {}, enrollSame)],
  [
    "enrollment_in_progress",
    409,
    "retry",
    async (from) => {
      const { token } = await createTestToken(test);
      const second = Promise.withResolvers<RefusableAnswer>();
      signBy((signer) => async (request) => {
        signBy();
        second.resolve(await enrollDevice(token, from));
        return signer.sign(request);
      });
      expect((await enrollDevice(token, from)).status).toBe(201);
      return second.promise;
    },
  ],
  ["not_pem", 422, "fix_request", enrolling({}, {}, undefined, { csr_pem: "junk" }), "csr_invalid"],
  [
    "token_malformed",
    429,
    "retry",
    async (from) => {
      for (let failure = 0; failure < 10; failure++) await enrollDevice("nonsense", from);
      // The next minute's first refusal has its own event.
      await clock.advance(60_000);
      return enrollDevice("nonsense", from);
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
  const expired = await createTestToken(test, {}, { ttl_seconds: 1 });
  await clock.advance(1000);
  const revoked = await createTestToken(test);
  await admin(`tokens/${revoked.tokenId}/revoke`);
  const body = await enrollmentOf("timed");
  const times = ["", expired.token, revoked.token].map((token) => ({ token, ms: [] as number[] }));
  for (let use = 0; use < 200; use++)
    for (const { token, ms } of times) {
      const startedAt = performance.now();
      const from = newAddress();
      await postEnrollment(test, token || generateToken(test.core.entropy), body, { from });
      ms.push(performance.now() - startedAt);
    }
  const at = (fraction: number) => times.map(({ ms }) => quantile(Float64Array.from(ms), fraction));
  expect(Math.max(...at(0.1))).toBeLessThan(Math.min(...at(0.9)));
});
