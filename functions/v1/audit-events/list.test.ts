import { sql } from "drizzle-orm";
import { expect, it } from "vitest";
import { chainAuditEvents } from "#functions/domain/audit/chain.ts";
import { searchedEventsMax } from "#functions/store/audit/list.ts";
import type { AuditEventView, RecordNames } from "#proto/audit-event.ts";
import { createTestToken } from "#tests/support/collector.ts";
import { useTestCore } from "#tests/support/core.ts";
import { readCsv } from "#tests/support/csv.ts";

interface Listed {
  items: AuditEventView[];
  next_cursor: string | null;
  names: RecordNames;
}

// Something to audit: a policy, a token, an enrollment, a revocation.
const test = await useTestCore();
const { enroll, policyId } = await createTestToken(test);
await test.clock.advance(1000);
const host = await enroll("web-1");
await test.clock.advance(1000);
await test.admin.post(`/v1/collector/identities/${host.identityId}/revoke`, {
  reason_code: "lost",
});

await chainAuditEvents(test.core);

const page = (query = "") => test.auditor.read<Listed>(`/v1/audit-events?${query}`);
const actions = async (query = "") => (await test.events(query)).map(({ action }) => action);
const ofHost = ["identity.revoke", "collector.enroll"];

it("lists newest first, by action, actor, target and time, page by page", async () => {
  const all = await test.events();
  const since = test.clock.iso();
  const made = all.slice(2).map(({ action }) => action);
  for (const [query, found] of [
    ["", [...ofHost, ...made]],
    ["action=identity.revoke", ["identity.revoke"]],
    [`actor=${test.people.admin.email}`, ["identity.revoke", ...made]],
    [`target=${host.identityId}`, ofHost],
    ["action=identity.revoke&action=collector.enroll", ofHost],
    ["by=people", ["identity.revoke", ...made]],
    ["by=machines", ["collector.enroll"]],
    ["kind=change", [...ofHost, ...made]],
    ["kind=change&action=identity.revoke&action=operator.sign_in", ["identity.revoke"]],
    ["kind=change&action=operator.sign_in", []],
    ["outcome=failure", []],
    ["outcome=success", [...ofHost, ...made]],
    [`since=${since}`, ["identity.revoke"]],
    [`until=${since}`, ["collector.enroll", ...made]],
    ["older_than_seconds=1", made],
    ["within_seconds=1", ofHost],
    [`within_seconds=3600&since=${since}`, ["identity.revoke"]],
  ] as const)
    expect(await actions(query), query).toEqual(found);
  const first = await page("limit=3");
  const second = await page(`limit=3&cursor=${first.next_cursor}`);
  expect([...first.items, ...second.items]).toEqual(all);
  expect(second.next_cursor).toBeNull();
});

it("leaves out actions and an actor, also of a list of actions, page by page", async () => {
  const all = await test.events();
  const without = (isLeftOut: (event: AuditEventView) => boolean) =>
    all.filter((event) => !isLeftOut(event));
  const left = without(
    ({ action }) => action === "identity.revoke" || action === "bootstrap_token.create",
  );
  const query = "not_action=identity.revoke&not_action=bootstrap_token.create";
  expect(left.length).toBeGreaterThan(1);
  expect(await test.events(query)).toEqual(left);
  const first = await page(`${query}&limit=1`);
  const rest = await test.events(`${query}&cursor=${first.next_cursor}`);
  expect([...first.items, ...rest]).toEqual(left);
  const admin = test.people.admin.email;
  expect(await test.events(`not_actor=${admin}`)).toEqual(
    without(({ actor }) => actor.display === admin),
  );
  expect(await test.events(`actor=${admin}&not_action=identity.revoke`)).toEqual(
    without(({ action, actor }) => action === "identity.revoke" || actor.display !== admin),
  );
  for (const none of ["action=identity.revoke", "outcome=failure"])
    expect(await test.events(`${none}&not_action=identity.revoke`)).toEqual([]);
});

it("finds what an event is about by an id, a name, a serial number or a fingerprint", async () => {
  const { items } = await test.auditor.read<{
    items: [Record<"id" | "serial_number" | "fingerprint_sha256", string>];
  }>(`/v1/collector/identities/${host.identityId}/certificates`);
  const { id, serial_number: serial, fingerprint_sha256: fingerprint } = items[0];
  await test.admin.post(`/v1/collector/certificates/${id}/revoke`);
  const policy = await test.admin.read(`/v1/collector/enrollment-policies/${policyId}`);
  for (const [target, found] of [
    [host.identityId, ofHost],
    [host.identity, ofHost],
    ["web-1", ofHost],
    [policyId, ["enrollment_policy.create"]],
    [policy.name, ["enrollment_policy.create"]],
    [id, []],
    [serial, []],
    [fingerprint, []],
    [fingerprint.toUpperCase().replace(/..(?=.)/g, "$&:"), []],
    ["nobody", []],
  ] as const)
    expect(await actions(`target=${encodeURIComponent(String(target))}`), `${target}`).toEqual(
      found,
    );
  expect(await actions("target=web-1&action=collector.enroll")).toEqual(["collector.enroll"]);
  expect(await actions(`target=web-1&actor=${test.people.admin.email}`)).toEqual([
    "identity.revoke",
  ]);
});

it("names the records that its events refer to", async () => {
  const { names } = await page("action=collector.enroll");
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
  expect((await page("action=bootstrap_token.create")).names).toMatchObject({
    [test.people.admin.userId]: { type: "person", name: test.people.admin.email },
  });
});

const download = async (file: string) => {
  const { body, headers } = await test.auditor.get<string>(`/v1/audit-events/${file}`);
  return { text: body, name: headers.get("content-disposition") };
};

it("exports every event of the filter, newest first, with names, as CSV", {
  tags: "workerd",
}, async () => {
  const { text, name } = await download(`export.csv?target=${host.identityId}`);
  const rows = readCsv(text);
  expect(rows.map(({ action, seq }) => [action, seq])).toEqual([
    ["identity.revoke", "4"],
    ["collector.enroll", "3"],
  ]);
  expect(rows[0]).toMatchObject({
    actor: test.people.admin.email,
    target: host.identity,
    target_id: host.identityId,
    reason_code: "lost",
  });
  expect(name).toMatch(/filename="audit_target-[0-9a-f-]{36}_\d{8}T\d{6}Z\.csv"$/);
});

it("exports the same events as JSON lines, with the hashes of the chain", {
  tags: "workerd",
}, async () => {
  const { text, name } = await download("export.jsonl?action=identity.revoke");
  const events = text
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
  expect(events).toMatchObject([
    { seq: 4, action: "identity.revoke", hash: expect.stringMatching(/^[0-9a-f]{64}$/) },
  ]);
  expect(events[0].names[host.identityId]).toMatchObject({
    type: "collector_identity",
    name: host.identity,
  });
  expect(name).toContain("audit_action-identity.revoke_");
});

it("audits exports with their filter, format and number of events", async () => {
  await test.clock.advance(1000);
  await download("export.csv?outcome=failure");
  expect(await test.events("action=audit.export&limit=1")).toMatchObject([
    {
      target: { type: "audit_export", id: "csv" },
      details: { filters: { outcome: "failure" }, rows: 0 },
    },
  ]);
});

it("searches text in actor, target, reason and details, and continues where it stopped reading", async () => {
  expect(await actions("q=LOST")).toEqual(["identity.revoke"]);
  expect(await actions("q=%25")).toEqual([]);
  const query = `q=${test.people.admin.email}`;
  const first = await page(`${query}&limit=1`);
  const second = await page(`${query}&limit=9&cursor=${first.next_cursor}`);
  expect([...first.items, ...second.items].map(({ action }) => action)).toEqual([
    "identity.revoke",
    "bootstrap_token.create",
    "enrollment_policy.create",
  ]);
  await test.db.execute(sql`
      insert into audit_event (id, occurred_at, actor_type, actor_id, actor_display, action, target_type, target_id, outcome, details)
      select overlay(gen_random_uuid()::text placing 'ffffffff-ffff-7' from 1)::uuid, now(), 'system', '', 'filler', 'filler.write',
        'filler', '', 'success', '{}' from generate_series(1, ${searchedEventsMax})`);
  const empty = await page("q=LOST");
  expect(empty).toMatchObject({ items: [], next_cursor: expect.any(String) });
  expect(await actions(`q=LOST&cursor=${empty.next_cursor}`)).toEqual(["identity.revoke"]);
});
