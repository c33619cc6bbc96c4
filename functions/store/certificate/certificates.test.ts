import { hash } from "node:crypto";
import { sql } from "drizzle-orm";
import { expect, it } from "vitest";
import { createTestToken } from "#tests/support/collector.ts";
import { useTestCore } from "#tests/support/core.ts";
import type { Executor } from "../database/database.ts";
import { findEndedCertificates, updateIdentityCertificatesRevoked } from "./certificates.ts";

const test = await useTestCore();
const token = await createTestToken(test);

const enroll = async (deviceId: string) => {
  const host = await token.enroll(deviceId);
  return { ...host, fingerprint: hash("sha256", host.certificate) };
};
const revoke = (db: Executor, identityId: string) =>
  updateIdentityCertificatesRevoked(db, identityId, new Date(test.clock.now()));

// Other tests have transactions on this server, so what ended may come twice.
it("finds what ended in a transaction that was open at the last read", async () => {
  const slow = await enroll("slow");
  const quick = await enroll("quick");
  const working = await enroll("working");
  const start = await findEndedCertificates(test.db, undefined);
  expect(start.ended).toBeUndefined();

  const hasRevoked = Promise.withResolvers<void>();
  const mayCommit = Promise.withResolvers<void>();
  const revoking = test.db.transaction(async (tx) => {
    await revoke(tx, slow.identityId);
    hasRevoked.resolve();
    await mayCommit.promise;
  });
  await hasRevoked.promise;
  await revoke(test.db, quick.identityId);
  const before = await findEndedCertificates(test.db, start.read);
  expect(before.ended).toContain(quick.fingerprint);
  expect(before.ended).not.toContain(slow.fingerprint);
  mayCommit.resolve();
  await revoking;

  const after = await findEndedCertificates(test.db, before.read);
  expect(after.ended).toContain(slow.fingerprint);
  expect(after.ended).not.toContain(working.fingerprint);
  expect(
    (await findEndedCertificates(test.db, { ...after.read, server: "another" })).ended,
  ).toBeUndefined();
});

it("leaves out what came with a dump, whose transactions were another server's", async () => {
  const host = await enroll("dumped");
  const { read } = await findEndedCertificates(test.db, undefined);
  await revoke(test.db, host.identityId);
  await test.db.transaction(async (tx) => {
    // As COPY writes it: no trigger runs, and the row names a transaction that is not its own.
    await tx.execute(sql`set local session_replication_role = replica`);
    await tx.execute(
      sql`update certificate set ended_xid = ended_xid + 1000000 where id = ${host.certificateId}`,
    );
  });
  expect((await findEndedCertificates(test.db, read)).ended).not.toContain(host.fingerprint);
});
