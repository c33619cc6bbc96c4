import { sql } from "drizzle-orm";
import { afterAll, describe, expect, it, onTestFinished } from "vitest";
import { createTestToken, enrollTestCollector } from "../../../tests/collector.ts";
import { createTestCore, type TestCore } from "../../../tests/core.ts";
import { verifyAudit } from "../../domain/audit/chain.ts";
import { chainAuditEvents } from "../../jobs/audit-jobs.ts";

interface Listed {
  items: { id: string; seq: number | null; action: string; hash: string | null; actor: { display: string } }[];
  next_cursor: string | null;
}

const events = async (test: TestCore, query = "") =>
  (await test.api<Listed>("GET", `/v1/audit-events${query}`, { as: "auditor" })).body;

/** Something to audit: a policy, a token, an enrollment, a revocation. */
const busy = async () => {
  const test = await createTestCore();
  const { token } = await createTestToken(test);
  await test.clock.advance(1000);
  const host = await enrollTestCollector(test, { token, deviceId: "web-1" });
  await test.clock.advance(1000);
  await test.api("POST", `/v1/collector/identities/${host.identityId}/revoke`, {
    as: "admin",
    body: { reason_code: "lost" },
  });
  return { ...test, host };
};

describe("GET /v1/audit-events", async () => {
  const test = await busy();
  afterAll(() => test.close());

  it("lists newest first, by action, actor, target and time, page by page", async () => {
    const { items } = await events(test);
    expect(items.map(({ action }) => action).slice(0, 2)).toEqual(["identity.revoke", "collector.enroll"]);
    const actions = async (query: string) => (await events(test, query)).items.map(({ action }) => action);
    expect(await actions("?action=identity.revoke")).toEqual(["identity.revoke"]);
    expect((await actions(`?actor=${test.people.admin.email}`)).length).toBe(3);
    expect(await actions(`?target_id=${test.host.identityId}`)).toEqual(["identity.revoke", "collector.enroll"]);
    const since = new Date(test.clock.now()).toISOString();
    expect(await actions(`?since=${since}`)).toEqual(["identity.revoke"]);
    expect((await actions(`?until=${since}`)).length).toBe(3);
    const first = await events(test, "?limit=3");
    const second = await events(test, `?limit=3&cursor=${first.next_cursor}`);
    expect([...first.items, ...second.items].map(({ id }) => id)).toEqual(items.map(({ id }) => id));
    expect(second.next_cursor).toBeNull();
  });
});

describe("the chain of the audit log", () => {
  it("chains every event once, whichever core appends, and verifies up to the head", async () => {
    const test = await busy();
    onTestFinished(() => test.close());
    expect((await events(test)).items.every(({ seq }) => seq === null)).toBe(true);
    const reports = await Promise.all([chainAuditEvents(test.db), chainAuditEvents(test.db)]);
    expect(reports.reduce((sum, report) => sum + (report?.chained ?? 0), 0)).toBe(4);
    expect(new Set((await events(test)).items.map(({ seq }) => seq))).toEqual(new Set([4, 3, 2, 1]));
    await test.clock.advance(1000);
    await test.api("POST", "/v1/collector/enrollment-policies", {
      as: "admin",
      body: { name: "another", allowed_identity_prefixes: ["spiffe://a.test/"] },
    });
    expect(await chainAuditEvents(test.db)).toEqual({ chained: 1 });
    expect(await chainAuditEvents(test.db)).toBeUndefined();
    const { items } = await events(test, "?limit=1");
    expect(await verifyAudit(test.db)).toEqual({
      ok: true,
      checked: 5,
      headSeq: 5,
      headHash: items[0]?.hash,
      fault: null,
    });
  });

  it("rejects an edit through the database, and detects one that bypassed the triggers", async () => {
    const damage = {
      "update audit_event set reason_code = 'other' where action = 'identity.revoke'": { kind: "event_edited", seq: 4 },
      "delete from audit_event where action = 'bootstrap_token.create'": { kind: "event_missing", seq: 2 },
      "delete from audit_chain where seq = 3": { kind: "gap", seq: 3 },
      "update audit_chain set prev_hash = hash where seq = 2": { kind: "chain_broken", seq: 2 },
      "insert into audit_event select gen_random_uuid(), occurred_at, actor_type, actor_id, actor_display, action, target_type, target_id, outcome, reason_code, reason, remote_addr, request_id, details from audit_event limit 1":
        { kind: "event_unchained", count: 1 },
    };
    for (const [statement, fault] of Object.entries(damage)) {
      const test = await busy();
      await chainAuditEvents(test.db);
      if (!statement.startsWith("insert")) {
        await expect(test.db.execute(sql.raw(statement))).rejects.toMatchObject({
          cause: { message: "the audit log is append-only" },
        });
      }
      // A superuser can still disable the triggers.
      await test.db.transaction(async (tx) => {
        await tx.execute(sql`set local session_replication_role = replica`);
        await tx.execute(sql.raw(statement));
      });
      expect({ statement, ...(await verifyAudit(test.db)) }).toMatchObject({ statement, ok: false, fault });
      await test.close();
    }
  });
});
