import { KeyObject, sign } from "node:crypto";
import { eq, sql } from "drizzle-orm";
import { beforeEach, expect, it } from "vitest";
import { collectorIdentity } from "#drizzle/schema/enrollment.ts";
import { collectorHealth } from "#drizzle/schema/health.ts";
import { lockCertificate } from "#functions/store/certificate/certificates.ts";
import { lockIdentity } from "#functions/store/certificate/identities.ts";
import { createTestCa, createTestKey, issueTestCertificate } from "#scripts/lab/ca/test-pki.ts";
import { heartbeatBody } from "#scripts/lab/heartbeat-body.ts";
import {
  createTestToken,
  manage,
  payloadOf,
  sendHeartbeat,
  type TestCollector,
  withProof,
} from "#tests/support/collector.ts";
import { type Call, useTestCore } from "#tests/support/core.ts";

const test = await useTestCore();
const { clock, db } = test;
const { enroll } = await createTestToken(test);

const path = "/v1/collector/heartbeat";
let host: TestCollector;
let hosts = 0;
beforeEach(async () => {
  host = await enroll(`host-${++hosts}`);
});

const beat = (over: Readonly<Record<string, unknown>> = {}, by = host) =>
  sendHeartbeat(test, by, over);
/** Sends heartbeats of one millisecond each, which are accepted. */
const beatTimes = async (count: number) => {
  for (let sent = 0; sent < count; sent++) expect((await beat(at(sent))).status).toBe(200);
};
/** Sends a request of the host as it is. */
const send = (call: Pick<Call, "body" | "raw">, to = path) =>
  test.api("POST", to, { certificate: host.certificate, listener: "ingest", ...call });
const proofInvalid = { body: { code: "proof_invalid" } };
const at = (ms: number) => ({ sent_at: clock.iso(ms) });
const healthOf = async ({ identityId }: TestCollector) =>
  (await db.select().from(collectorHealth).where(eq(collectorHealth.identityId, identityId)))[0];
const suspected = () => test.events(`target=${host.identityId}&action=identity.clone_suspected`);
const identityOf = async ({ identityId }: TestCollector) =>
  (await db.select().from(collectorIdentity).where(eq(collectorIdentity.id, identityId)))[0];

it("stores the report and answers with the next steps", async () => {
  const { status, body } = await beat({
    forwarder: {
      connected: false,
      last_ack_at: null,
      last_error: `down\u001b[0m${"x".repeat(600)}`,
    },
    config: { valid: false, errors: ['line 1: {"a"}', "b, c"], running_config_hash: null },
  });
  expect({ status, body }).toEqual({
    status: 200,
    body: {
      server_time: clock.iso(),
      next_heartbeat_seconds: 60,
      desired_config: null,
      renew_now: false,
      ca_bundles: { ingest: 0, management: 0 },
    },
  });
  expect(await healthOf(host)).toMatchObject({
    certificateId: host.certificateId,
    lastHeartbeatAt: new Date(clock.now()),
    bootId: "boot-1",
    hostname: "web-1",
    configValid: false,
    configErrors: ['line 1: {"a"}', "b, c"],
    queue_records: 3,
    queue_bytes_max: 104_857_600,
    droppedSincePrevious: false,
    forwarderLastAckAt: null,
    forwarderLastError: `down[0m${"x".repeat(493)}`,
    renewalStatus: "ok",
  });
});

it("accepts every kind of key", async () => {
  for (const kind of ["p384", "ed25519"] as const)
    expect((await beat({}, await enroll(`host-${kind}`, kind))).status).toBe(200);
});

it("accepts unknown fields, and the proof covers them", async () => {
  expect((await beat({ new_field: { a: [1] } })).status).toBe(200);
  const body = heartbeatBody(clock.now(), { ...at(1), new_field: 1 });
  const signed = withProof(host, "heartbeat", body);
  expect(await send({ body: { ...signed, new_field: 2 } })).toMatchObject(proofInvalid);
});

it("H1: rejects a replay and any older sent_at of one certificate and purpose", async () => {
  const body = heartbeatBody(clock.now());
  expect((await manage(test, host, "heartbeat", body)).status).toBe(200);
  const stale = {
    status: 409,
    code: "stale_request",
    action: "retry",
    last_sent_at: body.sent_at,
  };
  expect((await manage(test, host, "heartbeat", body)).body).toMatchObject(stale);
  expect((await beat(at(-1))).body).toMatchObject(stale);
  expect((await beat(at(1))).status).toBe(200);
  const desired = await manage(test, host, "config_desired", { sent_at: body.sent_at });
  expect(desired.body).toEqual({ assignment: null });
});

it("waits for no lock on its identity or certificate, so that no deadlock is possible", async () => {
  // The first use of a certificate is such a decision itself.
  await manage(test, host, "config_desired", at(0));
  await db.transaction(async (tx) => {
    await lockIdentity(tx, host.identityId);
    await lockCertificate(tx, host.certificateId);
    expect((await beat()).status).toBe(200);
  });
});

it("H2: rejects a heartbeat's proof on renew and config fetch", async () => {
  const body = heartbeatBody(clock.now(), { csr_pem: "", collector_version: "1" });
  const signed = withProof(host, "heartbeat", body);
  for (const other of ["/v1/collector/renew", "/v1/collector/config/desired"])
    expect(await send({ body: signed }, other)).toMatchObject(proofInvalid);
});

it("counts every outcome once", async () => {
  const before = test.observations.length;
  for (const ms of [0, 0, -120_001]) await beat(at(ms));
  const outcomes = test.observations.slice(before).filter(({ method }) => method === "heartbeat");
  expect(outcomes.map(({ args }) => args[0])).toEqual(["admitted", "stale_request", "clock_skew"]);
});

it("H3: accepts sent_at exactly 120 s away and rejects 1 ms more, and year 9999", async () => {
  expect((await beat(at(-120_000))).status).toBe(200);
  expect((await beat(at(120_000))).status).toBe(200);
  const skewed = { code: "clock_skew", server_time: clock.iso() };
  for (const over of [at(-120_001), at(120_001), { sent_at: "9999-12-31T23:59:59.999Z" }])
    expect((await beat(over)).body).toMatchObject(skewed);
  expect((await beat({ sent_at: "yesterday" })).body).toMatchObject({
    status: 422,
    errors: [{ path: "sent_at" }],
  });
});

it("H4: rejects an empty, truncated, P1363, wrong-algorithm or foreign signature", async () => {
  const body = heartbeatBody(clock.now());
  const data = payloadOf(host, "heartbeat", body);
  const privateKey = KeyObject.from(host.key.pair.privateKey);
  const stranger = KeyObject.from((await createTestKey()).pair.privateKey);
  let good = sign("sha256", data, privateKey);
  // Base64url is base64 where a signature needs neither padding nor one of the two letters that differ.
  while (!/[+/].*=$/.test(good.toString("base64"))) good = sign("sha256", data, privateKey);
  const proofs = [
    Buffer.alloc(0),
    good.subarray(0, -1),
    Buffer.concat([good, Buffer.alloc(1)]),
    sign("sha256", data, { key: privateKey, dsaEncoding: "ieee-p1363" }),
    sign("sha384", data, privateKey),
    sign("sha256", data, stranger),
  ].map((proof) => proof.toString("base64"));
  for (const proof of [
    ...proofs,
    good.toString("base64url").replaceAll("=", ""),
    good.toString("hex"),
    "…",
  ])
    expect(await send({ body: { ...body, proof } })).toMatchObject(proofInvalid);
  expect(await healthOf(host)).toBeUndefined();
});

it("H5: rejects a year that the database cannot store, and rounds no time into it", async () => {
  const { collector, renewal } = heartbeatBody(0) as { collector: object; renewal: object };
  const year0 = await beat({ collector: { ...collector, started_at: "0000-01-01T00:00:00Z" } });
  expect(year0.body).toMatchObject({ status: 422, errors: [{ path: "collector.started_at" }] });
  const last = "9999-12-31T23:59:59.9999999Z";
  expect((await beat({ renewal: { ...renewal, last_attempt_at: last } })).status).toBe(200);
  expect((await healthOf(host))?.renewalLastAttemptAt).toEqual(
    new Date("9999-12-31T23:59:59.999Z"),
  );
});

it("H5: rejects numbers out of bounds and control characters, without quoting them", async () => {
  const { queue, collector } = heartbeatBody(0) as { queue: object; collector: object };
  for (const over of [
    { queue: { ...queue, records: 2 ** 53 } },
    { collector: { ...collector, hostname: "web\u001b[31m-hunter2" } },
    { unknown: 2 ** 60 },
  ]) {
    const { body } = await beat(over);
    expect(body).toMatchObject({ code: "validation_failed" });
    expect(JSON.stringify(body)).not.toContain("hunter2");
  }
  const raw = { type: "application/json", content: '{"boot_id":"\\ud800"}' };
  expect(await send({ raw })).toMatchObject({ status: 422 });
});

it("rejects a body over 64 KiB", async () => {
  const codeOf = async (bytes: number) => {
    const content = `{"x":"${"x".repeat(bytes - 8)}"}`;
    return (await send({ raw: { type: "application/json", content } })).body.code;
  };
  expect(await codeOf(65_536)).toBe("validation_failed");
  expect(await codeOf(65_537)).toBe("payload_too_large");
});

it("rejects the seventh in any 60 s within ten seconds of the sixth, also across a full minute", async () => {
  expect((await beat()).status).toBe(200);
  await clock.advance(59_000);
  await beatTimes(5);
  await clock.advance(1000);
  expect((await beat(at(10))).status).toBe(200);
  expect((await beat(at(11))).status).toBe(429);
});

it("rejects more than 6 a minute of one certificate, and accepts one ten seconds after the last: no burst makes a host stale", async () => {
  await beatTimes(6);
  const seventh = await beat(at(6));
  expect(seventh.body).toMatchObject({ code: "rate_limited" });
  expect(seventh.headers.get("retry-after")).toBe("10");
  await clock.advance(9_999);
  expect((await beat(at(6))).status).toBe(429);
  await clock.advance(1);
  expect((await beat()).status).toBe(200);
  expect((await beat(at(1))).status).toBe(429);
  await clock.advance(60_000);
  await beatTimes(5);
});

it("accepts the heartbeats of any interval that it names", async () => {
  const brief = await useTestCore({ env: { SVC_HEARTBEAT_INTERVAL: "2s" } });
  const enrolled = await (await createTestToken(brief)).enroll("brief");
  for (let sent = 0; sent < 20; sent++) {
    expect((await sendHeartbeat(brief, enrolled)).status).toBe(200);
    await brief.clock.advance(1_800);
  }
});

it("accepts a certificate until its last millisecond", async () => {
  const short = await createTestToken(test, { certificate_ttl_seconds: 300 });
  const mayfly = await short.enroll("mayfly");
  await clock.advance(300_999);
  expect((await beat({}, mayfly)).status).toBe(200);
  await clock.advance(1);
  expect((await beat({}, mayfly)).body).toMatchObject({ code: "certificate_expired" });
});

it("records the last auth failure at most once a minute, and none for a certificate that does not chain", async () => {
  const key = await createTestKey();
  const ca = await createTestCa();
  const forged = await issueTestCertificate({ ca, key, uri: host.identity });
  await beat({}, { ...host, key, certificate: forged });
  expect(await identityOf(host)).toMatchObject({ lastAuthFailureAt: null });
  const first = new Date(clock.now());
  await beat(at(-120_001));
  expect(await identityOf(host)).toMatchObject({
    lastAuthFailureAt: first,
    lastAuthFailureReason: "clock_skew",
  });
  await clock.advance(59_999);
  await beat({}, { ...host, key });
  expect(await identityOf(host)).toMatchObject({ lastAuthFailureAt: first });
  await clock.advance(1);
  await beat({}, { ...host, key });
  expect(await identityOf(host)).toMatchObject({
    lastAuthFailureAt: new Date(clock.now()),
    lastAuthFailureReason: "proof_invalid",
  });
});

it("detects dropped records, and two processes that alternate with one certificate", async () => {
  const report = async (bootId: string, dropped: number) => {
    await clock.advance(60_000);
    const { queue } = heartbeatBody(0) as { queue: object };
    const changed = { ...queue, dropped_records_total: dropped };
    expect((await beat({ boot_id: bootId, queue: changed })).status).toBe(200);
    return (await healthOf(host))?.droppedSincePrevious;
  };
  const clones = async () => (await suspected()).length;
  expect(await report("a", 5)).toBe(false);
  expect(await report("a", 6)).toBe(true);
  expect(await report("a", 6)).toBe(false);
  await report("b", 0);
  expect(await clones()).toBe(0);
  await report("a", 0);
  expect(await clones()).toBe(1);
  await report("b", 0);
  expect(await clones()).toBe(1);
  for (let minute = 0; minute < 10; minute++) await report("b", 0);
  await report("a", 0);
  expect(await clones()).toBe(1);
});

it("marks every audit event for the hash chain", async () => {
  for (const bootId of ["a", "b"]) {
    await beat({ boot_id: bootId });
    await clock.advance(1000);
  }
  await db.execute(sql`alter table audit_pending add constraint closed check (false) not valid`);
  expect((await beat({ boot_id: "a" })).status).toBe(500);
  await db.execute(sql`alter table audit_pending drop constraint closed`);
  expect(await suspected()).toEqual([]);
});

it("writes concurrent heartbeats in shared statements, with a response of its own for each caller", async () => {
  const names = Array.from({ length: 40 }, (_, index) => `fleet-${index}`);
  const fleet = await Promise.all(names.map((name) => enroll(name)));
  await test.revoke(fleet[7]?.identityId);
  const answers = await Promise.all(
    fleet.map((member, index) =>
      beat({ boot_id: `boot-${index}`, ...(index === 9 ? at(-120_001) : {}) }, member),
    ),
  );
  for (const [index, member] of fleet.entries()) {
    const isRefused = index === 7 || index === 9;
    expect(answers[index]?.status, `${index}`).toBe(isRefused ? 401 : 200);
    expect((await healthOf(member))?.bootId).toBe(isRefused ? undefined : `boot-${index}`);
  }
});

it("requests a renewal when the collector should have renewed by itself", async () => {
  const short = await createTestToken(test, { certificate_ttl_seconds: 1000 });
  const member = await short.enroll("overdue");
  await clock.advance(600_000);
  expect((await beat({}, member)).body).toMatchObject({ renew_now: false });
  await clock.advance(1000);
  expect((await beat({}, member)).body).toMatchObject({ renew_now: true });
});
