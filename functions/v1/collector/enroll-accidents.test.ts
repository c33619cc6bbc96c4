import { eq, sql } from "drizzle-orm";
import { beforeEach, describe, expect, it } from "vitest";
import { auditEvent } from "#drizzle/schema/audit.ts";
import {
  certificate,
  enrollmentFailure,
  enrollmentRefusal,
  enrollmentReservation,
} from "#drizzle/schema/enrollment.ts";
import { createAdmitToken, createEnroll } from "#functions/domain/enrollment/enroll.ts";
import { flushEnrollmentRefusals } from "#functions/domain/enrollment/flush-refusals.ts";
import { createRunOrRefuse } from "#functions/domain/enrollment/refuse.ts";
import type { IssuedCertificate, Signer } from "#functions/signer/signer.ts";
import { createTestKey, type TestKey } from "#scripts/lab/ca/test-pki.ts";
import {
  collectorOf,
  createTestToken,
  enrollmentOf,
  identityPrefix,
  postEnrollment,
  sendHeartbeat,
} from "#tests/support/collector.ts";
import { useTestCore } from "#tests/support/core.ts";
import { isSlow } from "#tests/support/is-slow.ts";

/** Runs when a certificate has been signed and not yet recorded. */
let whileSigning = async (_issued: IssuedCertificate): Promise<void> => undefined;
const test = await useTestCore({
  wrapSigner: (signer: Signer): Signer => ({
    ...signer,
    sign: async (request) => {
      const issued = await signer.sign(request);
      await whileSigning(issued);
      return issued;
    },
  }),
});
const { clock, db } = test;
let devices = 0;
beforeEach(() => {
  whileSigning = async () => undefined;
});

const device = () => `host-${++devices}`;
/** A request of a host of its own, with a new key, unless these are given. */
const requestOf = (deviceId = device(), key?: TestKey) => enrollmentOf(deviceId, { key });
/** Holds the next signature: `signed` is its certificate, and `resume` lets core record it. */
const holdSigning = () => {
  const signed = Promise.withResolvers<IssuedCertificate>();
  const { promise, resolve: resume } = Promise.withResolvers<void>();
  whileSigning = (issued) => {
    whileSigning = async () => undefined;
    signed.resolve(issued);
    return promise;
  };
  return { signed: signed.promise, resume };
};
const enroll = (token: string, body: object, from = "127.0.0.1", headers = {}) =>
  postEnrollment(test, token, body, { headers, from });
const certificates = async () => (await db.select().from(certificate)).length;
const counted = async (id: string) =>
  (
    await db.execute(sql`select enrollment_count::int as n from enrollment_policy where id = ${id}`)
  )[0]?.n;

describe("an enrollment that fails between signing and recording", () => {
  it("E2: a crash leaves a certificate that core rejects, and a reservation that expires after 60 s", async () => {
    const { token } = await createTestToken(test, { max_enrollments: 1 });
    const deviceId = device();
    const key = await createTestKey();
    const body = await requestOf(deviceId, key);
    const { signed, resume } = holdSigning();
    const lost = enroll(token, body);
    const issued = await signed;
    const recorded = () =>
      db.$count(certificate, eq(certificate.serialNumber, issued.serialNumber));
    const [held] = await db.select().from(enrollmentReservation);
    const identity = identityPrefix + deviceId;
    expect(held).toMatchObject({ identity, spkiSha256: expect.anything() });
    expect(held?.serialNumber.replace(/^0+/, "")).toBe(issued.serialNumber.replace(/^0+/, ""));
    expect(await recorded()).toBe(0);
    const unrecorded = collectorOf(key, { identity, certificate_pem: issued.certificatePem });
    expect((await sendHeartbeat(test, unrecorded)).body.code).toBe("certificate_unknown");

    expect((await enroll(token, body)).body.code).toBe("enrollment_in_progress");
    await clock.advance(60_000);
    expect((await enroll(token, body)).status).toBe(201);
    // The delayed signer answers after its reservation expired and another one replaced it.
    resume();
    expect((await lost).body.code).toBe("enrollment_in_progress");
    expect(await db.$count(enrollmentReservation)).toBe(0);
    expect(await recorded()).toBe(0);
  });

  it("leaves no reservation when the signer fails, whose reason is only logged", async () => {
    const { token } = await createTestToken(test, { max_enrollments: 1 });
    const body = await requestOf();
    whileSigning = () => Promise.reject(new Error("the device is locked"));
    const failed = await enroll(token, body);
    expect(failed.body).toMatchObject({ code: "signer_failed", action: "retry" });
    expect(JSON.stringify(failed.body)).not.toContain("locked");
    expect(test.log.text()).toContain("the device is locked");
    whileSigning = async () => undefined;
    expect((await enroll(token, body)).status).toBe(201);
  });

  it("E3: an expired reservation cannot replace a certificate issued under another policy", async () => {
    const first = await createTestToken(test);
    const second = await createTestToken(test);
    const deviceId = device();
    const { signed, resume } = holdSigning();
    const slow = enroll(first.token, await requestOf(deviceId));
    await signed;
    await clock.advance(60_000);
    const { sql: connection } = test.database.connect();
    const waiting = (
      text: string,
    ) => connection`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'
      and query like ${text}`;
    // Holds the slow one between its last check and its commit.
    const locked = Promise.withResolvers<void>();
    const release = Promise.withResolvers<void>();
    const gate = connection.begin(async (tx) => {
      await tx`lock table audit_event in exclusive mode`;
      locked.resolve();
      await release.promise;
    });
    await locked.promise;
    resume();
    await expect.poll(() => waiting('insert into "audit_event"%')).toHaveLength(1);
    // Another core: the transactions of one follow each other.
    const { signer } = test.core;
    if (signer === null) throw new Error("no signer");
    const replica = { ...test.core, signer, db: test.database.connect().db };
    const runOrRefuse = createRunOrRefuse(replica);
    const origin = { requestId: "late", remoteAddress: "127.0.0.1" };
    const admitted = await createAdmitToken(replica, runOrRefuse)(second.token, origin);
    const body = await requestOf(deviceId);
    const late = createEnroll(replica, runOrRefuse)(admitted, body, origin).catch(
      (error) => error.code,
    );
    await expect.poll(() => waiting('select "id" from "enrollment_reservation"%')).toHaveLength(1);
    release.resolve();
    await gate;
    expect((await slow).status).toBe(201);
    expect(await late).toBe("identity_exists");
    const rows = await db
      .select()
      .from(certificate)
      .where(eq(certificate.certificatePem, String((await slow).body.certificate_pem)));
    expect(rows).toMatchObject([{ status: "active" }]);
  });

  it("E3: freezing the policy or revoking the token or identity while the signer runs issues nothing and releases the reservation", async () => {
    const admin = (path: string) => test.admin.post(`/v1/collector/${path}`);
    const first = await createTestToken(test, { reenrollment: "replace", max_enrollments: 1 });
    const known = await requestOf();
    const { body: enrolled } = await enroll(first.token, known);
    const again = await requestOf(known.device_id);
    const codeOf = async (token: string, body: object) => (await enroll(token, body)).body.code;
    const before = await certificates();
    whileSigning = async () => void (await admin(`identities/${enrolled.identity_id}/revoke`));
    expect(await codeOf(first.token, again)).toBe("identity_revoked");

    const second = await createTestToken(test);
    whileSigning = async () => void (await admin(`tokens/${second.tokenId}/revoke`));
    const fresh = await requestOf();
    expect(await codeOf(second.token, fresh)).toBe("token_invalid");

    const third = await createTestToken(test, { max_enrollments: 1 });
    whileSigning = async () => void (await admin(`enrollment-policies/${third.policyId}/freeze`));
    expect(await codeOf(third.token, fresh)).toBe("policy_frozen");
    expect([
      await certificates(),
      await counted(second.policyId),
      await counted(third.policyId),
    ]).toEqual([before, 0, 0]);
    expect(await db.$count(enrollmentReservation)).toBe(0);
  });
});

describe("the remote address of an enrollment", () => {
  // One body for all: core refuses the token first, and signing a request takes longer than to refuse it.
  const refused = requestOf("x");
  const bad = async (from: string, headers = {}) =>
    (await enroll("nonsense", await refused, from, headers)).body.code;

  it("E5: is the socket's address, regardless of X-Forwarded-For and similar headers", async () => {
    const { token } = await createTestToken(test, { allowed_source_cidrs: ["10.0.0.0/8"] });
    const forwardedFor = (address: string) => ({
      "X-Forwarded-For": address,
      "X-Real-IP": address,
      Forwarded: `for=${address}`,
      "True-Client-IP": address,
    });
    const body = await requestOf();
    expect((await enroll(token, body, "192.0.2.9", forwardedFor("10.0.0.1"))).body.code).toBe(
      "source_not_allowed",
    );
    expect((await enroll(token, body, "10.0.0.1", forwardedFor("192.0.2.9"))).status).toBe(201);
    for (let failure = 0; failure < 10; failure++)
      await bad("192.0.2.77", forwardedFor(`203.0.113.${failure}`));
    expect(await bad("192.0.2.77", forwardedFor("203.0.113.200"))).toBe("throttled");
    const [event] = await db.execute(
      sql`select count(*)::int as n from audit_event where remote_addr like '203.%'`,
    );
    expect(event?.n).toBe(0);
  });

  it("E6: treats an IPv4-mapped address as its IPv4, for CIDRs of either form and for the throttle", async () => {
    for (const cidr of ["198.51.100.0/24", "::ffff:198.51.100.0/120"]) {
      const { token } = await createTestToken(test, { allowed_source_cidrs: [cidr] });
      for (const from of ["198.51.100.7", "::ffff:198.51.100.7", "::ffff:c633:6407"])
        expect((await enroll(token, await requestOf(), from)).status, from).toBe(201);
      const other = await enroll(token, await requestOf(), "::ffff:198.51.101.7");
      expect(other.body.code).toBe("source_not_allowed");
    }
    for (let failure = 0; failure < 5; failure++) {
      await bad("198.51.100.9");
      await bad("::ffff:198.51.100.9");
    }
    for (const from of ["198.51.100.9", "::ffff:c633:6409"])
      expect(await bad(from)).toBe("throttled");
  });

  it("E7: a flood of failures from one address blocks no valid token, fills no table, and is counted exactly", async () => {
    const from = "203.0.113.50";
    const { token } = await createTestToken(test);
    // A new minute begins, so that the flood is one count.
    await clock.advance(60_000 - (clock.now() % 60_000));
    // In workerd each request has its own connection: as many are decided at the same time as are in flight.
    const floods = isSlow ? 3_000 : 300;
    const inFlight = 300;
    const flood = async () => {
      const codes: unknown[] = [];
      while (codes.length < floods)
        codes.push(...(await Promise.all(Array.from({ length: inFlight }, () => bad(from)))));
      return codes;
    };
    const flooded = flood();
    const good = enroll(token, await requestOf(), from);
    const codes = await flooded;
    expect((await good).status).toBe(201);
    expect(new Set(codes)).toEqual(new Set(["token_invalid", "throttled"]));
    expect(await bad(from)).toBe("throttled");
    expect(await db.$count(enrollmentFailure, eq(enrollmentFailure.addressKey, from))).toBe(10);
    expect(codes.filter((code) => code === "token_invalid")).toHaveLength(10);
    const events = () => db.select().from(auditEvent).where(eq(auditEvent.targetId, from));
    const all = await db.select().from(auditEvent).where(eq(auditEvent.remoteAddr, from));
    expect(all.filter(({ outcome }) => outcome === "failure")).toHaveLength(1);
    await flushEnrollmentRefusals(test.core);
    expect(await events()).toEqual([]);
    await clock.advance(65_001);
    await Promise.all([flushEnrollmentRefusals(test.core), flushEnrollmentRefusals(test.core)]);
    expect(await events()).toMatchObject([
      {
        action: "collector.enroll",
        outcome: "failure",
        reason: "token_malformed",
        details: { count: codes.length + 1 },
      },
    ]);
    expect(await db.$count(enrollmentRefusal)).toBe(0);
  });
});
