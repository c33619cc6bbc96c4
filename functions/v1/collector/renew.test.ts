import { X509Certificate } from "node:crypto";
import { eq } from "drizzle-orm";
import { beforeEach, expect, it } from "vitest";
import { certificate, proofUse } from "#drizzle/schema/enrollment.ts";
import { markUsed } from "#functions/domain/certificate/authenticate.ts";
import type { Signer } from "#functions/signer/signer.ts";
import { createTestCsr, createTestKey, type TestKey } from "#scripts/lab/ca/test-pki.ts";
import {
  collectorOf,
  createTestToken,
  manage,
  sendHeartbeat,
  type TestCollector,
} from "#tests/support/collector.ts";
import { useTestCore } from "#tests/support/core.ts";

/** Runs when a certificate has been signed and not yet recorded. */
let whileSigning = async () => undefined;
const test = await useTestCore({
  wrapSigner: (signer: Signer) => ({
    ...signer,
    sign: async (request) => {
      const issued = await signer.sign(request);
      await whileSigning();
      return issued;
    },
  }),
});
const { clock, db } = test;
const { enroll, policyId } = await createTestToken(test, {
  certificate_ttl_seconds: 86_400,
});

let host: TestCollector;
let hosts = 0;
beforeEach(async () => {
  whileSigning = async () => undefined;
  host = await enroll(`host-${++hosts}`);
  await clock.advance(60_000);
});

let sent = 0;
const now = () => ({ sent_at: clock.iso(++sent) });
const renew = async (key?: TestKey, by = host) =>
  manage(test, by, "renew", {
    ...now(),
    csr_pem: await createTestCsr({ key: key ?? (await createTestKey()), uri: by.identity }),
    collector_version: "1.1.0",
  });
/** Renews with a key of its own and returns the successor. */
const successorOf = async (key?: TestKey) => {
  const own = key ?? (await createTestKey());
  return collectorOf(own, (await renew(own)).body);
};
const beat = (by: TestCollector) => sendHeartbeat(test, by, now());
const statuses = async () => {
  const rows = await db
    .select()
    .from(certificate)
    .where(eq(certificate.identityId, host.identityId));
  return Object.fromEntries(rows.map(({ id, status }) => [id, status]));
};
const audited = (query: string) => test.events(`action=certificate.renew&${query}`);

it("issues a successor for a fresh key with the policy's lifetime, audited", async () => {
  const key = await createTestKey("ed25519");
  const { status, body } = await renew(key);
  expect(status).toBe(200);
  const issued = new X509Certificate(String(body.certificate_pem));
  expect(issued.publicKey.export({ format: "der", type: "spki" }).equals(key.spki)).toBe(true);
  expect(issued.subjectAltName).toBe(`URI:${host.identity}`);
  expect(body).toMatchObject({
    identity_id: host.identityId,
    identity: host.identity,
    not_after: clock.iso(86_400_000),
    renew_after: clock.iso(43_200_000),
  });
  expect(await audited(`target=${body.certificate_id}`)).toHaveLength(1);
  expect((await beat(collectorOf(key, body))).status).toBe(200);
});

it("R1: keeps the old certificate active until the new one is used, and answers a retry of the same key with the same certificate", async () => {
  const key = await createTestKey();
  const first = await renew(key);
  expect((await beat(host)).status).toBe(200);
  const { certificate_pem, certificate_id } = first.body;
  const again = await renew(key);
  expect(again.body).toMatchObject({ certificate_pem, certificate_id });
  const successor = collectorOf(key, again.body);
  expect(await statuses()).toEqual({
    [host.certificateId]: "active",
    [successor.certificateId]: "active",
  });
  expect((await beat(successor)).status).toBe(200);
  expect(await statuses()).toEqual({
    [host.certificateId]: "replaced",
    [successor.certificateId]: "active",
  });
});

it("R1: a new key replaces an unused successor, which core then rejects", async () => {
  const unused = await successorOf();
  const successor = await successorOf();
  expect(await statuses()).toEqual({
    [host.certificateId]: "active",
    [unused.certificateId]: "replaced",
    [successor.certificateId]: "active",
  });
  expect((await beat(unused)).body).toMatchObject({ code: "certificate_replaced" });
  expect((await beat(successor)).status).toBe(200);
});

it("counts a renewal or a config fetch as the first use of a successor", {
  tags: "workerd",
}, async () => {
  for (const purpose of ["renew", "config_desired"] as const) {
    const successor = await successorOf();
    if (purpose === "renew") await renew(undefined, successor);
    else await manage(test, successor, purpose, now());
    expect((await statuses())[host.certificateId]).toBe("replaced");
    host = successor;
  }
});

it("R2: 10 parallel renewals leave one lineage, for one key and for several", async () => {
  const same = await createTestKey();
  const answers = await Promise.all(Array.from({ length: 10 }, () => renew(same)));
  const taken = answers.filter(({ status }) => status === 200);
  expect(taken.length).toBeGreaterThan(0);
  expect(new Set(taken.map(({ body }) => body.certificate_id)).size).toBe(1);
  expect(answers.every(({ status }) => [200, 409, 429].includes(status))).toBe(true);
  await clock.advance(60_000);
  const keys = await Promise.all(Array.from({ length: 10 }, () => createTestKey()));
  const outcomes = await Promise.all(keys.map((key) => renew(key)));
  const active = Object.entries(await statuses()).filter(([, status]) => status === "active");
  expect(active).toHaveLength(2);
  // One of the two active certificates is the host's old one. The other is the successor, whose recipient can continue with it.
  const at = outcomes.findIndex(({ body }) => active.some(([id]) => id === body.certificate_id));
  const key = keys[at];
  const successor = outcomes[at];
  if (key === undefined || successor === undefined)
    throw new Error("no response has the successor");
  expect((await beat(collectorOf(key, successor.body))).status).toBe(200);
  expect((await statuses())[host.certificateId]).toBe("replaced");
});

it("R4: a certificate or identity revoked while signing gets no successor", async () => {
  const revoke = (path: string) => async () =>
    void (await test.admin.post(`/v1/collector/${path}/revoke`));
  whileSigning = revoke(`certificates/${host.certificateId}`);
  expect((await renew()).body.code).toBe("certificate_revoked");
  const other = await enroll("revoked-while-signing");
  whileSigning = revoke(`identities/${other.identityId}`);
  expect((await renew(undefined, other)).body.code).toBe("identity_revoked");
  expect(Object.values(await statuses())).toEqual(["revoked"]);
});

/** Renews with each new certificate in turn, until core refuses. Returns the newest host, the refusal and the count. */
const chain = async (countMax: number) => {
  for (let renewals = 0; renewals < countMax; renewals++) {
    await clock.advance(100);
    const key = await createTestKey();
    const answer = await renew(key);
    if (answer.status !== 200) return { renewals, refused: answer };
    host = collectorOf(key, answer.body);
  }
  return { renewals: countMax, refused: undefined };
};

it("N4: renewals in a chain are limited for the identity, and the refusals are one audit event a minute", async () => {
  const { renewals, refused } = await chain(12);
  expect(renewals).toBe(6);
  expect(refused?.body).toMatchObject({ code: "rate_limited" });
  expect(refused?.headers.get("Retry-After")).toBe("60");
  await clock.advance(30_000);
  expect((await renew()).headers.get("Retry-After")).toBe("30");
  expect(await audited(`outcome=failure&target=${host.identityId}`)).toMatchObject([
    { outcome: "failure", reason: "rate_limited", actor: { id: host.identityId } },
  ]);
  await clock.advance(30_000);
  expect((await renew()).status).toBe(200);
});

it("N4: a chain of slow renewals is limited by the hour, until the certificate is due for renewal", async () => {
  const short = await createTestToken(test, { certificate_ttl_seconds: 900 });
  host = await short.enroll(`host-${++hosts}`);
  host = await successorOf();
  const [first] = await db.select().from(certificate).where(eq(certificate.id, host.certificateId));
  if (first === undefined) throw new Error("the renewed certificate has no row");
  const earlier = Array.from({ length: 28 }, (_, at) => ({
    ...first,
    id: crypto.randomUUID(),
    status: "replaced" as const,
    fingerprintSha256: crypto.getRandomValues(new Uint8Array(32)),
    issuedAt: new Date(clock.now() - (at + 1) * 90_000),
  }));
  await db.insert(certificate).values(earlier);
  expect((await chain(6)).renewals).toBe(1);
  const lost = await createTestKey();
  expect((await renew(lost)).body).toMatchObject({ code: "rate_limited" });
  await clock.advance(450_000);
  for (const key of [lost, lost, undefined]) expect((await renew(key)).status).toBe(200);
});

it("N4: a lost response is repeated when the identity is at its limit", async () => {
  const before = host;
  const key = await createTestKey();
  await renew(key);
  host = await successorOf(key);
  await chain(4);
  const lost = await createTestKey();
  const first = await renew(lost);
  expect((await renew(undefined, before)).body.code).toBe("certificate_replaced");
  expect((await renew(lost)).body.certificate_id).toBe(first.body.certificate_id);
  expect((await renew()).status).toBe(429);
});

it("N4: a successor inherits the heartbeats and config fetches that its predecessor has just sent", async () => {
  for (const purpose of ["heartbeat", "config_desired"] as const) {
    const send = () =>
      purpose === "heartbeat" ? beat(host) : manage(test, host, "config_desired", now());
    for (let sent = 0; sent < 5; sent++) expect((await send()).status).toBe(200);
    await chain(1);
    for (const status of [200, 429, 429]) expect((await send()).status).toBe(status);
    await clock.advance(60_000);
    expect((await send()).status).toBe(200);
  }
});

it("N4: records the first use of a successor while a request of it is under way, with which it could deadlock", async () => {
  expect((await beat(host)).status).toBe(200);
  const { certificateId, identityId } = await successorOf();
  const began = Promise.withResolvers<void>();
  const ends = Promise.withResolvers<void>();
  const request = db.transaction(async (tx) => {
    await tx
      .insert(proofUse)
      .values({ certificateId, purpose: "heartbeat", lastSentAt: new Date(0), recentAt: [] });
    began.resolve();
    await ends.promise;
  });
  await began.promise;
  const used = markUsed(test, [{ certificateId, identityId }]);
  try {
    await expect
      .poll(statuses, { timeout: 10_000 })
      .toMatchObject({ [host.certificateId]: "replaced" });
  } finally {
    ends.resolve();
    await Promise.all([request, used]);
  }
  expect(
    await db.select().from(proofUse).where(eq(proofUse.certificateId, certificateId)),
  ).toMatchObject([{ recentAt: [expect.anything()] }]);
});

it("renews under a frozen policy", async () => {
  await test.admin.post(`/v1/collector/enrollment-policies/${policyId}/freeze`);
  expect((await renew()).status).toBe(200);
});
