import { eq } from "drizzle-orm";
import { describe, expect, it } from "vitest";
import { collectorIdentity } from "#drizzle/schema/enrollment.ts";
import type { ProofPurpose } from "#proto/management/proof.ts";
import {
  createTestCa,
  createTestCsr,
  createTestKey,
  issueTestCertificate,
} from "#scripts/lab/ca/test-pki.ts";
import { heartbeatBody } from "#scripts/lab/heartbeat-body.ts";
import { createRefusingCore, type RefusableAnswer } from "#tests/support/access/refusals.ts";
import {
  collectorOf,
  createTestToken,
  manage,
  managementPaths,
  type TestCollector,
} from "#tests/support/collector.ts";
import type { Call } from "#tests/support/core.ts";
import { isSlow } from "#tests/support/is-slow.ts";

/** Every refusal of management requests: its status, code, action, audit event and last auth failure. */
const test = await createRefusingCore({ SVC_ENROLLMENT_CLIENT_CERT_HEADER: "X-Client-Cert" });
const { api, clock, db, signBy, newAddress, deviceOf, admin, eventsFrom } = test;

let sent = 0;
/** A body that is right for the purpose, and newer than any before. */
const bodyOf = async (purpose: ProofPurpose, host: TestCollector, over: object = {}) => {
  const sent_at = new Date(clock.now() + (++sent % 1000)).toISOString();
  if (purpose === "heartbeat") return { ...heartbeatBody(clock.now()), sent_at, ...over };
  if (purpose === "diag")
    return { sent_at, request_id: host.identityId, refusal: "forbidden", ...over };
  if (purpose === "config_desired") return { sent_at, ...over };
  if (purpose === "ca_bundle") return { sent_at, channel: "ingest", ...over };
  const csr_pem = await createTestCsr({ key: await createTestKey(), uri: host.identity });
  return { sent_at, csr_pem, collector_version: "1.1.0", ...over };
};

interface Records {
  /** The identity's last auth failure; absent: none is recorded. */
  recorded?: boolean;
  /** The audit event; absent: none. */
  event?: { action: string; reason: string };
}
type Provoke = (host: TestCollector, purpose: ProofPurpose, call: Call) => Promise<RefusableAnswer>;
const sendWith =
  (over: () => object): Provoke =>
  async (host, purpose, call) =>
    manage(test, host, purpose, await bodyOf(purpose, host, over()), call);
const send = sendWith(() => ({}));
/** Sends a request without the certificate of the connection. */
const sendBare =
  (headers: Record<string, string> = {}): Provoke =>
  async (host, purpose, { from = "" }) => {
    const body = { ...(await bodyOf(purpose, host)), proof: "AA==" };
    return api("POST", managementPaths[purpose], { from, headers, body });
  };
/** Sends a request after what `before` does. */
const sendAfter =
  (before: (host: TestCollector) => Promise<unknown>): Provoke =>
  async (host, purpose, call) => {
    await before(host);
    return send(host, purpose, call);
  };
const presenting = async (
  host: TestCollector,
  over: Partial<Parameters<typeof issueTestCertificate>[0]>,
) => {
  const certificate = await issueTestCertificate({
    ca: test.ca,
    key: host.key,
    uri: host.identity,
    ...over,
  });
  return { ...host, certificate };
};
const successorOf = async (host: TestCollector) => {
  const key = await createTestKey();
  const csr_pem = await createTestCsr({ key, uri: host.identity });
  return collectorOf(key, (await sendWith(() => ({ csr_pem }))(host, "renew", {})).body);
};

type Row = [status: number, code: string, action: string, provoke: Provoke, more?: Records];
const managements: Row[] = [
  [401, "client_certificate_required", "fix_request", sendBare()],
  [400, "client_certificate_header_invalid", "fix_request", sendBare({ "X-Client-Cert": "junk" })],
  [
    401,
    "certificate_identity_invalid",
    "reenroll",
    async (host, purpose, call) =>
      send(await presenting(host, { names: [], subject: "CN=host" }), purpose, call),
  ],
  [
    401,
    "certificate_unknown",
    "reenroll",
    async (host, purpose, call) =>
      send(await presenting(host, { ca: await createTestCa() }), purpose, call),
  ],
  [
    401,
    "certificate_unknown",
    "reenroll",
    async (host, purpose, call) => send(await presenting(host, {}), purpose, call),
    { recorded: true },
  ],
  [
    401,
    "certificate_revoked",
    "stop",
    sendAfter((host) => admin(`certificates/${host.certificateId}/revoke`)),
    { recorded: true },
  ],
  [
    401,
    "certificate_replaced",
    "reenroll",
    sendAfter(async (host) => send(await successorOf(host), "heartbeat", {})),
    {
      recorded: true,
      event: { action: "certificate.reuse_refused", reason: "certificate_replaced" },
    },
  ],
  [
    401,
    "certificate_expired",
    "reenroll",
    sendAfter(() => clock.advance(301_000)),
    { recorded: true },
  ],
  [
    401,
    "identity_revoked",
    "stop",
    sendAfter((host) => admin(`identities/${host.identityId}/revoke`)),
    { recorded: true },
  ],
  [
    401,
    "proof_invalid",
    "fix_request",
    async (host, purpose, call) => send({ ...host, key: await createTestKey() }, purpose, call),
    { recorded: true },
  ],
  [
    401,
    "clock_skew",
    "fix_clock",
    sendWith(() => ({ sent_at: clock.iso(-120_001) })),
    { recorded: true },
  ],
  [
    409,
    "stale_request",
    "retry",
    async (host, purpose, call) => {
      const body = await bodyOf(purpose, host);
      await manage(test, host, purpose, body, call);
      return manage(test, host, purpose, body, call);
    },
  ],
  [
    429,
    "rate_limited",
    "retry",
    async (host, purpose, call) => {
      const sendAt = (ms: number) =>
        sendWith(() => ({ sent_at: clock.iso(ms) }))(host, purpose, call);
      for (let taken = 0; taken < 6; taken++) await sendAt(taken);
      return sendAt(6);
    },
  ],
];

const renewals: Row[] = [
  [
    403,
    "identity_mismatch",
    "fix_request",
    async (host, _, call) => {
      const csr_pem = await createTestCsr({ key: await createTestKey(), uri: `${host.identity}0` });
      return sendWith(() => ({ csr_pem }))(host, "renew", call);
    },
  ],
  [422, "csr_invalid", "fix_request", sendWith(() => ({ csr_pem: "junk" }))],
  [
    502,
    "signer_failed",
    "retry",
    async (host, _, call) => {
      signBy(() => () => {
        throw new Error("the device is locked");
      });
      return send(host, "renew", call);
    },
    { event: { action: "certificate.renew", reason: "signer_failed" } },
  ],
];

const checkRefused = async (purpose: ProofPurpose, [status, code, action, provoke, more]: Row) => {
  const { recorded = false, event } = more ?? {};
  const from = newAddress();
  const { enroll } = await createTestToken(test, { certificate_ttl_seconds: 300 });
  const host = await enroll(deviceOf(from));
  await clock.advance(1000);
  const answer = await provoke(host, purpose, { from }).finally(() => signBy());
  expect(answer).toMatchObject({
    status,
    body: { status, code, action, type: `urn:svc:problem:${code}` },
  });
  const [identity] = await db
    .select()
    .from(collectorIdentity)
    .where(eq(collectorIdentity.id, host.identityId));
  expect({
    reason: identity?.lastAuthFailureReason,
    at: identity?.lastAuthFailureAt?.getTime() ?? null,
  }).toEqual(recorded ? { reason: code, at: clock.now() } : { reason: null, at: null });
  expect(await eventsFrom(from)).toMatchObject(
    event === undefined
      ? []
      : [{ ...event, actorId: host.identityId, targetId: host.certificateId }],
  );
};

describe("refused management requests", () => {
  const purposes = Object.keys(managementPaths) as ProofPurpose[];
  /** How many of the purposes each refusal is provoked with, each with others. */
  const purposesEach = isSlow ? purposes.length : 1;
  for (const [at, purpose] of purposes.entries()) {
    const refusals = managements.filter((_, row) => (row + at) % purposes.length < purposesEach);
    it.each(refusals)(`${purpose}: %i %s`, (...row) => checkRefused(purpose, row));
  }
  it.each(renewals)("renew alone: %i %s", (...row) => checkRefused("renew", row));

  it("R3: audits reuse once a minute, also right after another failure was recorded", async () => {
    const host = await (await createTestToken(test)).enroll("reused");
    await clock.advance(1000);
    await send(await successorOf(host), "heartbeat", {});
    const from = newAddress();
    await send({ ...host, key: await createTestKey() }, "heartbeat", { from });
    await Promise.all(Array.from({ length: 8 }, () => send(host, "heartbeat", { from })));
    await send(host, "renew", { from });
    expect(await eventsFrom(from)).toMatchObject([{ action: "certificate.reuse_refused" }]);
    await clock.advance(60_000);
    await send(host, "renew", { from });
    expect(await eventsFrom(from)).toHaveLength(2);
  });
});
