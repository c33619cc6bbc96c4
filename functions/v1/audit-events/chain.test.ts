import { sql } from "drizzle-orm";
import { expect, it } from "vitest";
import { chainAuditEvents, verifyAudit, verifyChain } from "#functions/domain/audit/chain.ts";
import type { AuditChainView } from "#proto/audit-event.ts";
import { type TestCore, useTestCore } from "#tests/support/core.ts";

/** A core with a chain of three events, made by policies. */
const setUp = async () => {
  const test = await useTestCore();
  const create = (name: string) =>
    test.admin.post("/v1/collector/enrollment-policies", {
      name,
      allowed_identity_prefixes: ["spiffe://a.test/"],
    });
  for (const name of ["one", "two", "three"]) await create(name);
  const status = () => test.auditor.read<AuditChainView>("/v1/audit-events/chain");
  const verify = () => verifyAudit(test.db, test.core.cryptography);
  /** Changes the log as a superuser can. */
  const damage = (statement: string) =>
    test.db.transaction(async (tx) => {
      await tx.execute(sql`set local session_replication_role = replica`);
      await tx.execute(sql.raw(statement));
    });
  return { ...test, create, status, verify, damage };
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

it("refuses every edit, claims nothing from one that bypassed the triggers on, and keeps the fault", async () => {
  const idOf = (seq: number) => `id = (select event_id from audit_chain where seq = ${seq})`;
  const faults: [statement: string, kind: string, seq: number, seenAnew?: object][] = [
    [`update audit_event set reason_code = 'other' where ${idOf(2)}`, "event_edited", 2],
    [`delete from audit_event where ${idOf(3)}`, "event_missing", 3],
    ["delete from audit_chain where seq = 1", "gap", 1],
    ["delete from audit_chain where seq = 3", "gap", 3, { kind: "event_unchained", count: 1 }],
    [
      "update audit_chain set hash = prev_hash where seq = 3",
      "chain_broken",
      3,
      { kind: "event_edited", seq: 3 },
    ],
  ];
  for (const [statement, kind, seq, seenAnew] of faults) {
    const fault = { kind, seq };
    const test = await setUp();
    await chainAuditEvents(test.core);
    await verifyChain(test.core);
    await expect(test.db.execute(sql.raw(statement))).rejects.toMatchObject({
      cause: { message: "the audit log is append-only" },
    });
    await test.damage(statement);
    expect(await test.verify(), statement).toMatchObject({
      ok: false,
      fault: seenAnew ?? fault,
    });
    await test.clock.advance(3_600_000);
    expect(await verifyChain(test.core), statement).toMatchObject({ fault });
    await test.create("four");
    await chainAuditEvents(test.core);
    expect(await verifyChain(test.core)).toBeUndefined();
    const status = await test.status();
    expect(status, statement).toMatchObject({ fault });
    expect(status.verified?.seq ?? 0).toBe(seq - 1);
  }
});

it("has every event once, whichever core appends, up to the head", async () => {
  const test = await setUp();
  const reports = await Promise.all([chainAuditEvents(test.core), chainAuditEvents(test.core)]);
  expect(reports.reduce((sum, report) => sum + (report?.chained ?? 0), 0)).toBe(3);
  expect(new Set((await test.events()).map(({ seq }) => seq))).toEqual(new Set([3, 2, 1]));
  await test.clock.advance(1000);
  await test.create("four");
  expect((await test.events("limit=1"))[0]?.seq).toBeNull();
  expect(await chainAuditEvents(test.core)).toEqual({ chained: 1 });
  expect(await chainAuditEvents(test.core)).toBeUndefined();
  const [newest] = await test.events("limit=1");
  expect(await test.verify()).toEqual({
    ok: true,
    checked: 4,
    headSeq: 4,
    headHash: newest?.hash,
    fault: null,
  });
});

it.each([
  ["update audit_chain set prev_hash = hash where seq = 2", { kind: "chain_broken", seq: 2 }],
  [
    "insert into audit_event select gen_random_uuid(), occurred_at, actor_type, actor_id, actor_display, action, target_type, target_id, outcome, reason_code, reason, remote_addr, request_id, details from audit_event limit 1",
    { kind: "event_unchained", count: 1 },
  ],
])("is not verified after %.20s", async (statement, fault) => {
  const test = await setUp();
  await chainAuditEvents(test.core);
  await test.damage(statement);
  expect(await test.verify()).toMatchObject({ ok: false, fault });
});
