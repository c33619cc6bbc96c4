import { sql } from "drizzle-orm";
import { afterAll, describe, expect, it, onTestFinished } from "vitest";
import { verifyAudit } from "#functions/domain/audit/chain.ts";
import { chainAuditEvents } from "#functions/domain/audit/chain-events.ts";
import { searchedEventsMax } from "#functions/store/audit/list.ts";
import type { RecordNames } from "#proto/audit-event.ts";
import { createTestToken } from "#tests/support/collector.ts";
import { createTestCore, type TestCore } from "#tests/support/core.ts";

interface Listed {
  items: {
    id: string;
    seq: number | null;
    action: string;
    hash: string | null;
    actor: { display: string };
  }[];
  next_cursor: string | null;
  names: RecordNames;
}

const events = (test: TestCore, query = "") =>
  test.auditor.read<Listed>(`/v1/audit-events${query}`);

/** Something to audit: a policy, a token, an enrollment, a revocation. */
const busy = async () => {
  const test = await createTestCore();
  const { enroll, policyId } = await createTestToken(test);
  await test.clock.advance(1000);
  const host = await enroll("web-1");
  await test.clock.advance(1000);
  await test.admin.post(`/v1/collector/identities/${host.identityId}/revoke`, {
    reason_code: "lost",
  });
  return { ...test, host, policyId };
};

describe("GET /v1/audit-events", async () => {
  const test = await busy();
  afterAll(() => test.close());

  it("lists newest first, by action, actor, target and time, page by page", async () => {
    const { items } = await events(test);
    expect(items.map(({ action }) => action).slice(0, 2)).toEqual([
      "identity.revoke",
      "collector.enroll",
    ]);
    const actions = async (query: string) =>
      (await events(test, query)).items.map(({ action }) => action);
    expect(await actions("?action=identity.revoke")).toEqual(["identity.revoke"]);
    expect((await actions(`?actor=${test.people.admin.email}`)).length).toBe(3);
    expect(await actions(`?target=${test.host.identityId}`)).toEqual([
      "identity.revoke",
      "collector.enroll",
    ]);
    expect(await actions("?action=identity.revoke&action=collector.enroll")).toEqual([
      "identity.revoke",
      "collector.enroll",
    ]);
    expect(await actions("?outcome=failure")).toEqual([]);
    expect((await actions("?outcome=success")).length).toBe(4);
    const since = test.clock.iso();
    expect(await actions(`?since=${since}`)).toEqual(["identity.revoke"]);
    expect((await actions(`?until=${since}`)).length).toBe(3);
    expect((await actions("?older_than_seconds=1")).length).toBe(2);
    expect(await actions("?within_seconds=1")).toEqual(["identity.revoke", "collector.enroll"]);
    expect(await actions(`?within_seconds=3600&since=${since}`)).toEqual(["identity.revoke"]);
    const first = await events(test, "?limit=3");
    const second = await events(test, `?limit=3&cursor=${first.next_cursor}`);
    expect([...first.items, ...second.items].map(({ id }) => id)).toEqual(
      items.map(({ id }) => id),
    );
    expect(second.next_cursor).toBeNull();
  });

  it("leaves out actions and an actor, also of a list of actions, page by page", async () => {
    const all = (await events(test)).items;
    const found = async (query: string) => (await events(test, query)).items.map(({ id }) => id);
    const without = (isLeftOut: (event: Listed["items"][number]) => boolean) =>
      all.filter((event) => !isLeftOut(event)).map(({ id }) => id);
    const left = without(
      ({ action }) => action === "identity.revoke" || action === "bootstrap_token.create",
    );
    const query = "not_action=identity.revoke&not_action=bootstrap_token.create";
    expect(left.length).toBeGreaterThan(1);
    expect(await found(`?${query}`)).toEqual(left);
    const first = await events(test, `?${query}&limit=1`);
    expect([first.items[0]?.id, ...(await found(`?${query}&cursor=${first.next_cursor}`))]).toEqual(
      left,
    );
    const admin = test.people.admin.email;
    expect(await found(`?not_actor=${admin}`)).toEqual(
      without(({ actor }) => actor.display === admin),
    );
    expect(await found(`?actor=${admin}&not_action=identity.revoke`)).toEqual(
      without(({ action, actor }) => action === "identity.revoke" || actor.display !== admin),
    );
    expect(await found("?action=identity.revoke&not_action=identity.revoke")).toEqual([]);
    expect(await found("?outcome=failure&not_action=identity.revoke")).toEqual([]);
  });

  it("finds what an event is about by an id, a name, a serial number or a fingerprint", async () => {
    const { host, policyId } = test;
    const actions = async (target: string, more = "") =>
      (await events(test, `?${new URLSearchParams({ target })}${more}`)).items.map(
        ({ action }) => action,
      );
    const ofHost = ["identity.revoke", "collector.enroll"];
    for (const name of [host.identityId, host.identity, "web-1"])
      expect([name, await actions(name)]).toEqual([name, ofHost]);
    const { body } = await test.auditor.get<{
      items: [Record<"id" | "serial_number" | "fingerprint_sha256", string>];
    }>(`/v1/collector/identities/${host.identityId}/certificates`);
    const { id, serial_number: serial, fingerprint_sha256: fingerprint } = body.items[0];
    await test.admin.post(`/v1/collector/certificates/${id}/revoke`);
    const { body: policy } = await test.admin.get<{ name: string }>(
      `/v1/collector/enrollment-policies/${policyId}`,
    );
    for (const name of [policyId, policy.name])
      expect([name, await actions(name)]).toEqual([name, ["enrollment_policy.create"]]);
    for (const name of [
      id,
      serial,
      fingerprint,
      fingerprint.toUpperCase().replace(/..(?=.)/g, "$&:"),
    ])
      expect([name, await actions(name)]).toEqual([name, []]);
    expect(await actions("nobody")).toEqual([]);
    expect(await actions("web-1", "&action=collector.enroll")).toEqual(["collector.enroll"]);
    expect(await actions("web-1", `&actor=${test.people.admin.email}`)).toEqual([
      "identity.revoke",
    ]);
  });

  it("names the records that its events refer to", async () => {
    const { host } = test;
    const { names } = await events(test, "?action=collector.enroll");
    expect(names[host.identityId]).toEqual({
      type: "collector_identity",
      name: host.identity,
      detail: null,
      identity_id: host.identityId,
    });
    expect(names[host.certificateId]).toMatchObject({ type: "certificate", detail: host.identity });
    expect(
      Object.values(names)
        .map(({ type }) => type)
        .sort(),
    ).toEqual(["bootstrap_token", "certificate", "collector_identity", "enrollment_policy"]);
    expect((await events(test, "?action=bootstrap_token.create")).names).toMatchObject({
      [test.people.admin.userId]: { type: "person", name: test.people.admin.email },
    });
  });

  it("searches text in actor, target, reason and details, and continues where it stopped reading", async () => {
    const found = async (query: string) =>
      (await events(test, query)).items.map(({ action }) => action);
    expect(await found("?q=LOST")).toEqual(["identity.revoke"]);
    expect(await found("?q=%25")).toEqual([]);
    const first = await events(test, `?q=${test.people.admin.email}&limit=1`);
    const second = await events(
      test,
      `?q=${test.people.admin.email}&limit=9&cursor=${first.next_cursor}`,
    );
    expect([...first.items, ...second.items].map(({ action }) => action)).toEqual([
      "identity.revoke",
      "bootstrap_token.create",
      "enrollment_policy.create",
    ]);
    await test.db.execute(sql`
      insert into audit_event (id, occurred_at, actor_type, actor_id, actor_display, action, target_type, target_id, outcome, details)
      select overlay(gen_random_uuid()::text placing 'ffffffff-ffff-7' from 1)::uuid, now(), 'system', '', 'filler', 'filler.write',
        'filler', '', 'success', '{}' from generate_series(1, ${searchedEventsMax})`);
    const empty = await events(test, "?q=LOST");
    expect(empty).toMatchObject({ items: [], next_cursor: expect.any(String) });
    expect(await found(`?q=LOST&cursor=${empty.next_cursor}`)).toEqual(["identity.revoke"]);
  });
});

describe("the chain of the audit log", () => {
  it("chains every event once, whichever core appends, and verifies up to the head", async () => {
    const test = await busy();
    onTestFinished(() => test.close());
    expect((await events(test)).items.every(({ seq }) => seq === null)).toBe(true);
    const reports = await Promise.all([chainAuditEvents(test.core), chainAuditEvents(test.core)]);
    expect(reports.reduce((sum, report) => sum + (report?.chained ?? 0), 0)).toBe(4);
    expect(new Set((await events(test)).items.map(({ seq }) => seq))).toEqual(
      new Set([4, 3, 2, 1]),
    );
    await test.clock.advance(1000);
    await test.admin.post("/v1/collector/enrollment-policies", {
      name: "another",
      allowed_identity_prefixes: ["spiffe://a.test/"],
    });
    expect(await chainAuditEvents(test.core)).toEqual({ chained: 1 });
    expect(await chainAuditEvents(test.core)).toBeUndefined();
    const { items } = await events(test, "?limit=1");
    expect(await verifyAudit(test.db, test.core.cryptography)).toEqual({
      ok: true,
      checked: 5,
      headSeq: 5,
      headHash: items[0]?.hash,
      fault: null,
    });
  });

  it("rejects an edit through the database, and detects one that bypassed the triggers", async () => {
    const damage = {
      "update audit_event set reason_code = 'other' where action = 'identity.revoke'": {
        kind: "event_edited",
        seq: 4,
      },
      "delete from audit_event where action = 'bootstrap_token.create'": {
        kind: "event_missing",
        seq: 2,
      },
      "delete from audit_chain where seq = 3": { kind: "gap", seq: 3 },
      "update audit_chain set prev_hash = hash where seq = 2": { kind: "chain_broken", seq: 2 },
      "insert into audit_event select gen_random_uuid(), occurred_at, actor_type, actor_id, actor_display, action, target_type, target_id, outcome, reason_code, reason, remote_addr, request_id, details from audit_event limit 1":
        { kind: "event_unchained", count: 1 },
    };
    for (const [statement, fault] of Object.entries(damage)) {
      const test = await busy();
      await chainAuditEvents(test.core);
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
      expect({ statement, ...(await verifyAudit(test.db, test.core.cryptography)) }).toMatchObject({
        statement,
        ok: false,
        fault,
      });
      await test.close();
    }
  });
});
