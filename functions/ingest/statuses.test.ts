import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { systemClock } from "#kit/clock.ts";
import { createTestCsr, createTestKey } from "#scripts/lab/ca/test-pki.ts";
import { heartbeatBody } from "#scripts/lab/heartbeat-body.ts";
import {
  collectorOf,
  createTestToken,
  manage,
  type TestCollector,
  withProof,
} from "#tests/support/collector.ts";
import { createTestCore, type TestCore } from "#tests/support/core.ts";
import { connectInTest, openForward } from "#tests/support/grpc-client.ts";
import { clientOf, ingestPaths, startTestIngest, type TestIngest } from "#tests/support/ingest.ts";
import {
  createCertificateRegister,
  createStatusRegister,
  ingestChannels,
} from "../ingest-registers.ts";
import { createDatabaseServers } from "../node/database/database-servers.ts";
import { listen, type Subscription } from "../store/database/listen.ts";
import { insertCaBundle } from "../store/system/ca-bundles.ts";
import type { IngestNeeds } from "./create-ingest.ts";

/** TLS compares dates with the machine's clock, so core and ingest start at its time; then their clock moves only by `advance`. */
let core: TestCore;
/** Takes statuses of enrolled hosts, and telemetry of every host of the client CA. */
let ingest: TestIngest;
let withoutSigner: TestIngest;
/** A second core on the same database, which receives no notifications. */
let cut: TestIngest;
let subscription: Subscription | undefined;
let enrollAs: (deviceId: string) => Promise<TestCollector>;
beforeEach(() => core.clock.set(systemClock.now()));

/** Opens a stream of a host, or of `identity` with the certificate of one that nobody enrolled. */
const open = async (
  host: TestCollector | { identity: string },
  at = ingest,
  takes_directives = false,
) => {
  const { identity } = host;
  const credentials = "key" in host ? clientOf(host) : await at.client({ uri: identity });
  const { call, messages, ended } = openForward(connectInTest(at, credentials));
  const queue = { host_id: identity, queue_id: Buffer.alloc(16, 1) };
  let seen = 0;
  const next = async () => {
    await expect.poll(() => messages.length, { interval: 2, timeout: 3000 }).toBeGreaterThan(seen);
    return messages[seen++] ?? {};
  };
  call.write({ open: { ...queue, takes_directives } });
  const opened = (await next()).opened;
  return {
    opened,
    ended,
    next,
    send: (status: object) => call.write({ status }),
    /** How many messages have arrived. */
    received: () => messages.length,
    /** Sends a status and returns the answer. */
    status: async (status: object) => {
      call.write({ status: { seq: 7, digest: digest(1), figures: {}, ...status } });
      return (await next()).status_answer;
    },
    /** Sends an envelope and returns the ack's sequence. */
    forward: async (sequence: number) => {
      const frame = {
        ...queue,
        previous_sequence: sequence - 1,
        envelopes: [{ sequence, kind: "log_line" }],
      };
      call.write({ frame });
      return (await next()).ack?.acked_through;
    },
  };
};

let configs = 0;
const publish = async () => {
  const yaml = `buffer: {dir: data-${++configs}}\nforwarder: {endpoint: a:1, mtls: {cert_file: a, key_file: b, ca_file: c}}\nsources: []\n`;
  const { body } = await core.admin.post<{ id: string; config_hash: string }>(
    "/v1/collector/configs",
    { yaml },
  );
  return { id: body.id, hash: body.config_hash };
};
const assign = ({ identityId }: TestCollector, config_id: string) =>
  core.admin.put(`/v1/collector/identities/${identityId}/desired-config`, { config_id });

const digest = (byte: number) => Buffer.alloc(32, byte);
const reportOf = (host: TestCollector, over: Readonly<Record<string, unknown>> = {}) =>
  Buffer.from(JSON.stringify(withProof(host, "heartbeat", heartbeatBody(core.clock.now(), over))));
let hosts = 0;
const enroll = () => enrollAs(`host-${++hosts}`);
const healthOf = async (hostId: string) =>
  (
    await ingest.connection
      .sql`select h.* from collector_health h join collector_identity i on i.id = identity_id
    where i.identity = ${hostId}`
  )[0];
const seen = async (host: TestCollector) =>
  (
    await ingest.connection.sql`select * from fleet_status where identity_id = ${host.identityId}`
  )[0];
const timeOf = (text: unknown) => Date.parse(String(text));
const atNext = () => ({ sent_at: core.clock.iso(1) });
const failureOf = async (hostId: string) =>
  (
    await ingest.connection
      .sql`select last_auth_failure_reason as reason from collector_identity where identity = ${hostId}`
  )[0]?.reason;

const accepted = {
  seq: "7",
  report_needed: false,
  refused: "",
  next_status_seconds: 60,
  renew_now: false,
};

/** A host with a stream, whose first report core has. */
const openReported = async () => {
  const host = await enroll();
  const stream = await open(host);
  expect(await stream.status({ report: reportOf(host) })).toMatchObject(accepted);
  return { host, stream };
};

describe.each(ingestPaths)("statuses, on the $path", ({ fastPath }) => {
  beforeAll(async () => {
    core = await createTestCore();
    core.clock.set(systemClock.now());
    const certificates = createCertificateRegister(core.core, core.database.connect().db);
    const { ca, database, clock } = core;
    const needs = { fastPath, clock, certificates };
    const statuses = createStatusRegister(core.core);
    const at = { url: core.databaseUrl, servers: createDatabaseServers(core.databaseUrl) };
    const listenFor: IngestNeeds["listen"] = (on) => {
      subscription = listen(at, ingestChannels(on));
      return subscription.listening;
    };
    ingest = await startTestIngest({
      ca,
      database,
      needs: { ...needs, statuses, listen: listenFor },
    });
    cut = await startTestIngest({ ca, database, needs: { ...needs, statuses } });
    withoutSigner = await startTestIngest({ ca, database, needs });
    enrollAs = (await createTestToken(core)).enroll;
  });
  afterAll(async () => {
    subscription?.close();
    await Promise.all([ingest.close(), cut.close(), withoutSigner.close()]);
    await core.close();
  });

  it("offers an interval only where hosts can be known, and rejects a status elsewhere", async () => {
    const host = await enroll();
    expect((await open(host)).opened).toMatchObject({ status_interval_seconds: 60 });
    const stream = await open(host, withoutSigner);
    expect(stream.opened).toMatchObject({ status_interval_seconds: 0 });
    stream.send({ seq: 1, digest: digest(1) });
    expect((await stream.ended).error).toMatchObject({ reason: "frame_invalid" });
  });

  it("stores a signed report as the heartbeat by HTTP does, and answers with the same", async () => {
    const one = await enroll();
    const other = await enroll();
    const report = { config: { valid: false, errors: ["line 1"], running_config_hash: null } };
    const stream = await open(one);
    expect(await stream.status({ report: reportOf(one, report) })).toMatchObject({
      ...accepted,
      desired_config: null,
    });
    const { body } = await manage(
      core,
      other,
      "heartbeat",
      heartbeatBody(core.clock.now(), report),
    );
    expect(body).toMatchObject({
      next_heartbeat_seconds: 60,
      renew_now: false,
      desired_config: null,
    });
    const ofHost = {
      identity_id: null,
      certificate_id: null,
      report_digest: null,
      digest_reported_at: null,
    };
    expect({ ...(await healthOf(one.identity)), ...ofHost }).toEqual({
      ...(await healthOf(other.identity)),
      ...ofHost,
    });
  });

  it("answers with the numbers of the newest CA bundles", async () => {
    const { host, stream } = await openReported();
    const publishedAt = new Date(core.clock.now());
    const bundle = { channel: "ingest", number: 4, sha256: "0".repeat(64), pem: "" } as const;
    await insertCaBundle(core.db, { ...bundle, publishedAt });
    await core.clock.advance(1_000);
    const report = reportOf(host, { ca_bundles: { ingest: 4, management: null, pinned: false } });
    expect(await stream.status({ report })).toMatchObject({
      ca_bundles: { ingest: 4, management: 0 },
    });
    expect(await healthOf(host.identity)).toMatchObject({
      ingest_ca_bundle: "4",
      management_ca_bundle: null,
      ca_pinned: false,
    });
  });

  it("answers with the assigned config, and lets telemetry pass between statuses", async () => {
    const host = await enroll();
    const { id, hash } = await publish();
    await assign(host, id);
    const stream = await open(host);
    expect(await stream.forward(1)).toBe("1");
    expect(await stream.status({ report: reportOf(host) })).toMatchObject({
      ...accepted,
      desired_config: { config_id: id, config_hash: hash },
    });
    expect(await stream.forward(2)).toBe("2");
  });

  it("tells those streams of a host that take directives of another config at once, on the replica that has them", async () => {
    const host = await enroll();
    const other = await enroll();
    const stream = await open(host, ingest, true);
    const silent = await open(host);
    const late = await open(host, cut, true);
    const others = await open(other, ingest, true);
    const { id, hash } = await publish();
    await assign(host, id);
    expect((await stream.next()).directive).toEqual({ spread_ms: 0, config_assigned: {} });
    await core.admin.delete(`/v1/collector/identities/${host.identityId}/desired-config`);
    expect((await stream.next()).directive).toEqual({ spread_ms: 0, config_assigned: {} });
    await assign(host, id);
    // The notification is lost here: the next status brings the same.
    expect(await late.status({ report: reportOf(host) })).toMatchObject({
      desired_config: { config_id: id, config_hash: hash },
    });
    expect([silent.received(), others.received(), late.received()]).toEqual([1, 1, 2]);
  });

  it("asks a host for its diagnostics on its stream at once, and with the next status where the notification is lost", async () => {
    const host = await enroll();
    const stream = await open(host, ingest, true);
    const late = await open(host, cut, true);
    expect(await late.status({ report: reportOf(host) })).toMatchObject({
      ...accepted,
      send_diag: null,
    });
    await core.clock.advance(1_000);
    const { body } = await core.admin.post(`/v1/collector/hosts/${host.identityId}/diags`);
    const send_diag = { request_id: body.id };
    expect((await stream.next()).directive).toEqual({ spread_ms: 0, send_diag });
    expect(await late.status({})).toMatchObject({ ...accepted, send_diag });
    expect(late.received()).toBe(3);
  });

  it("has a host report or renew at once, and says with each later status that it must renew, until it has", async () => {
    const host = await enroll();
    const stream = await open(host, ingest, true);
    const late = await open(host, cut, true);
    expect(await late.status({ report: reportOf(host) })).toMatchObject(accepted);
    const nudge = (action: string, as: "admin" | "auditor" = "admin") =>
      core.api("POST", `/v1/collector/hosts/${host.identityId}/nudges`, { as, body: { action } });
    expect((await nudge("report_now")).status).toBe(204);
    expect((await stream.next()).directive).toEqual({ spread_ms: 0, report_now: {} });
    expect(await late.status({})).toMatchObject(accepted);
    expect((await nudge("renew_now")).status).toBe(204);
    expect((await stream.next()).directive).toEqual({ spread_ms: 0, renew_now: {} });
    expect(await late.status({})).toMatchObject({ ...accepted, renew_now: true });
    const key = await createTestKey();
    const csr_pem = await createTestCsr({ key, uri: host.identity });
    const { body } = await manage(core, host, "renew", {
      ...atNext(),
      csr_pem,
      collector_version: "1.1.0",
    });
    const successor = collectorOf(key, { ...body, identity_id: host.identityId });
    const renewed = await open(successor, cut);
    expect(await renewed.status({ report: reportOf(successor) })).toMatchObject(accepted);
    expect(await nudge("renew_now", "auditor")).toMatchObject({ status: 403 });
    expect(await nudge("config_assigned")).toMatchObject({ status: 422 });
    expect(await nudge("restart")).toMatchObject({ body: { code: "conflict" } });
    await core.revoke(host.identityId);
    expect(await nudge("renew_now")).toMatchObject({ body: { code: "conflict" } });
    const { body: log } = await core.auditor.get<{ items: { details: object }[] }>(
      `/v1/audit-events?action=host.nudge&target=${host.identityId}`,
    );
    expect(log.items.map(({ details }) => details)).toEqual(
      ["renew_now", "report_now"].map((action) => ({ identity: host.identity, nudge: action })),
    );
  });

  it("spreads the directives to many hosts, and ignores notifications that it cannot read", async () => {
    const many = await Promise.all(Array.from({ length: 3 }, enroll));
    const streams = await Promise.all(many.map((host) => open(host, ingest, true)));
    const { id } = await publish();
    for (const payload of [
      "",
      "x",
      "config_assigned",
      `later 0 ${many[0]?.identityId}`,
      `renew_now -1 ${many[0]?.identityId}`,
      `renew_now 0 ${many[0]?.identityId} r`,
      `send_diag 0 ${many[0]?.identityId}`,
    ])
      await ingest.connection.sql`select pg_notify('svc_directive', ${payload})`;
    const notified: string[] = [];
    const at = { url: core.databaseUrl, servers: createDatabaseServers(core.databaseUrl) };
    const others = listen(at, {
      svc_directive: (payload) => payload === undefined || notified.push(payload),
    });
    await others.listening;
    const identity_ids = many.map(({ identityId }) => identityId).sort();
    await core.admin.post(`/v1/collector/configs/${id}/assignments`, { identity_ids });
    for (const stream of streams)
      expect((await stream.next()).directive).toEqual({ spread_ms: 3, config_assigned: {} });
    await expect.poll(() => notified).toEqual([`config_assigned 3 ${identity_ids.join()}`]);
    others.close();
  });

  it("counts a status whose digest is the stored one as a heartbeat, with its figures and the assigned config", async () => {
    const host = await enroll();
    const { id, hash } = await publish();
    const stream = await open(host);
    expect(await stream.status({ report: reportOf(host) })).toMatchObject(accepted);
    await assign(host, id);
    await core.clock.advance(30_000);
    const figures = { queue_records: 17, queue_bytes: 4_096 };
    const desired_config = { config_id: id, config_hash: hash };
    expect(await stream.status({ figures })).toMatchObject({ ...accepted, desired_config });
    const row = await seen(host);
    expect(row).toMatchObject({ queue_records: 17, queue_bytes: "4096" });
    expect(timeOf(row?.last_heartbeat_at)).toBe(core.clock.now());
    // The report's row is as it was.
    expect(timeOf((await healthOf(host.identity))?.last_heartbeat_at)).toBe(
      core.clock.now() - 30_000,
    );
    // On another stream, of another replica, and with another digest.
    const other = await open(host, cut);
    expect(await other.status({})).toMatchObject({ ...accepted, desired_config });
    expect(await other.status({ digest: digest(2) })).toMatchObject({ report_needed: true });
  });

  it("stores an absurd age of a host that has lost records as one of thirty years: it must not fail the hosts beside it", async () => {
    const { host, stream } = await openReported();
    await core.clock.advance(1_000);
    const figures = {
      dropped_records_total: 1,
      last_ack_age_seconds: 10 ** 12,
      oldest_record_age_seconds: 10 ** 15,
    };
    expect(await stream.status({ figures })).toMatchObject(accepted);
    expect(await healthOf(host.identity)).toMatchObject({ dropped_records_total: "1" });
  });

  it("says that the certificate must be renewed, when that is overdue", async () => {
    const { host, stream } = await openReported();
    await ingest.connection
      .sql`update certificate set renew_after = now() - interval '30 days' where id = ${host.certificateId}`;
    await core.clock.advance(1_000);
    expect(await stream.status({})).toMatchObject({ ...accepted, renew_now: true });
  });

  it("refuses a report as the heartbeat by HTTP does, and keeps the stream", async () => {
    const host = await enroll();
    const other = await enroll();
    const stream = await open(host);
    const refused = async (report: Buffer) => {
      const answer = await stream.status({ report });
      await core.clock.advance(61_000);
      return answer?.refused;
    };
    const now = core.clock.now();
    const sentAt = (ms: number) => ({ sent_at: new Date(now + ms).toISOString() });
    expect(await refused(reportOf(other))).toBe("proof_invalid");
    expect(await failureOf(host.identity)).toBe("proof_invalid");
    expect(await refused(reportOf(host, sentAt(-200_000)))).toBe("clock_skew");
    expect(await refused(reportOf(host, sentAt(122_000)))).toBe("");
    expect(await refused(reportOf(host, sentAt(122_000)))).toBe("stale_request");
    expect(await refused(Buffer.from("{}"))).toBe("validation_failed");
    expect(await refused(Buffer.from("not json"))).toBe("malformed_json");
    expect(await refused(Buffer.alloc(65_537, 32))).toBe("payload_too_large");
    expect(await refused(Buffer.from(`{"x":[${"{},".repeat(20_000)}{}]}`))).toBe(
      "payload_too_large",
    );
    expect(await stream.forward(1)).toBe("1");
  });

  it.each([
    ["certificate_revoked", (host: TestCollector) => revoke(`certificates/${host.certificateId}`)],
    ["identity_revoked", (host: TestCollector) => revoke(`identities/${host.identityId}`)],
    ["certificate_replaced", replace],
  ] as const)("refuses the status of a host whose stream is open: %s", async (code, act) => {
    const { host, stream } = await openReported();
    const at = (await healthOf(host.identity))?.last_heartbeat_at;
    await act(host);
    await core.clock.advance(61_000);
    expect((await stream.status({ report: reportOf(host) }))?.refused).toBe(code);
    expect((await stream.status({}))?.refused).toBe(code);
    expect(await failureOf(host.identity)).toBe(code);
    if (code !== "certificate_replaced")
      expect((await healthOf(host.identity))?.last_heartbeat_at).toEqual(at);
  });

  it("refuses the status of a certificate that core has not issued, whose telemetry it takes", async () => {
    const identity = "https://fleet.test/d/by-hand";
    const stream = await open({ identity });
    expect(await stream.forward(1)).toBe("1");
    expect((await stream.status({}))?.refused).toBe("certificate_unknown");
    expect(await stream.forward(2)).toBe("2");
  });

  it("answers six statuses of a host in a minute, whatever streams it opens", async () => {
    const host = await enroll();
    const stream = await open(host);
    for (let count = 0; count < 6; count++) expect((await stream.status({}))?.refused).toBe("");
    expect((await stream.status({}))?.refused).toBe("rate_limited");
    expect((await (await open(host)).status({}))?.refused).toBe("rate_limited");
    await core.clock.advance(10_000);
    expect((await stream.status({}))?.refused).toBe("");
  });

  it("ends a stream whose client does not wait for the answer, or sends no digest", async () => {
    const host = await enroll();
    const eager = await open(host);
    eager.send({ seq: 1, digest: digest(1), report: reportOf(host) });
    eager.send({ seq: 2, digest: digest(1), report: reportOf(host) });
    expect((await eager.ended).error).toMatchObject({ reason: "frame_invalid" });
    const short = await open(host);
    short.send({ seq: 1, digest: digest(1).subarray(1) });
    expect((await short.ended).error).toMatchObject({ reason: "frame_invalid" });
    if (!fastPath) return;
    const large = await open(host);
    large.send({ seq: 1, digest: digest(1), report: Buffer.alloc(80_000) });
    expect((await large.ended).error).toMatchObject({ reason: "frame_too_large" });
  });
});

const revoke = (what: string) => core.admin.post(`/v1/collector/${what}/revoke`, {});

/** Renews a host's certificate and uses the new one. */
async function replace(host: TestCollector) {
  const key = await createTestKey();
  const csr_pem = await createTestCsr({ key, uri: host.identity });
  const sent_at = core.clock.iso();
  const { body } = await manage(core, host, "renew", {
    sent_at,
    csr_pem,
    collector_version: "1.0.0",
  });
  await core.clock.advance(1_000);
  await manage(core, collectorOf(key, body), "heartbeat", heartbeatBody(core.clock.now()));
}
