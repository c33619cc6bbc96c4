import { sql } from "drizzle-orm";
import { expect, it, onTestFinished } from "vitest";
import { chainAuditEvents } from "#functions/domain/audit/chain-events.ts";
import { verifyChain } from "#functions/domain/audit/verify-chain.ts";
import type { AuditChainView } from "#proto/audit-event.ts";
import { createTestCore, type TestCore } from "#tests/support/core.ts";

/** A core with a chain of three events, made by policies. */
const setUp = async () => {
  const test = await createTestCore();
  onTestFinished(() => test.close());
  const create = (name: string) =>
    test.admin.post("/v1/collector/enrollment-policies", {
      name,
      allowed_identity_prefixes: ["spiffe://a.test/"],
    });
  for (const name of ["one", "two", "three"]) await create(name);
  const status = () => test.auditor.read<AuditChainView>("/v1/audit-events/chain");
  /** Changes the log as a superuser can. */
  const damage = (statement: string) =>
    test.db.transaction(async (tx) => {
      await tx.execute(sql`set local session_replication_role = replica`);
      await tx.execute(sql.raw(statement));
    });
  return { ...test, create, status, damage };
};

const at = (test: Pick<TestCore, "clock">) => test.clock.iso();

it("reports the head, the events that wait, and how far the chain was verified", async () => {
  const test = await setUp();
  expect(await test.status()).toEqual({ head: null, pending: 3, verified: null, fault: null });
  await chainAuditEvents(test.core);
  expect(await test.status()).toMatchObject({ head: { seq: 3 }, pending: 0, verified: null });
  const began = at(test);
  expect(await verifyChain(test.core)).toEqual({ checked: 3, fault: null });
  const { head, verified } = await test.status();
  expect(verified).toEqual({ ...head, checked_at: began, checked_since: began });
  await test.clock.advance(60_000);
  expect(await verifyChain(test.core)).toBeUndefined();
  await test.create("four");
  expect(await test.status()).toMatchObject({
    head: { seq: 3 },
    pending: 1,
    verified: { seq: 3 },
  });
  await chainAuditEvents(test.core);
  expect(await test.status()).toMatchObject({ head: { seq: 4 }, verified: { seq: 3 } });
  expect(await verifyChain(test.core)).toEqual({ checked: 1, fault: null });
  expect(await test.status()).toMatchObject({
    verified: { seq: 4, checked_at: at(test), checked_since: began },
  });
});

it("checks all events again after an hour, and only then says so", {
  tags: "workerd",
}, async () => {
  const test = await setUp();
  await chainAuditEvents(test.core);
  await verifyChain(test.core);
  await test.clock.advance(3_600_000);
  expect(await verifyChain(test.core)).toEqual({ checked: 3, fault: null });
  expect(await test.status()).toMatchObject({ verified: { seq: 3, checked_since: at(test) } });
});

it("claims nothing from a fault on, and keeps it", async () => {
  const faults = {
    "update audit_event set reason_code = 'other' where id = (select event_id from audit_chain where seq = 2)":
      {
        kind: "event_edited",
        seq: 2,
      },
    "delete from audit_event where id = (select event_id from audit_chain where seq = 3)": {
      kind: "event_missing",
      seq: 3,
    },
    "delete from audit_chain where seq = 1": { kind: "gap", seq: 1 },
    "delete from audit_chain where seq = 3": { kind: "gap", seq: 3 },
    "update audit_chain set hash = prev_hash where seq = 3": { kind: "chain_broken", seq: 3 },
  };
  for (const [statement, fault] of Object.entries(faults)) {
    const test = await setUp();
    await chainAuditEvents(test.core);
    await verifyChain(test.core);
    await test.damage(statement);
    await test.clock.advance(3_600_000);
    expect({ statement, ...(await verifyChain(test.core)) }).toMatchObject({ statement, fault });
    await test.create("four");
    await chainAuditEvents(test.core);
    expect(await verifyChain(test.core)).toBeUndefined();
    const status = await test.status();
    expect({ statement, ...status }).toMatchObject({ statement, fault });
    expect(status.verified?.seq ?? 0).toBe(fault.seq - 1);
  }
});
