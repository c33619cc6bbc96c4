import { expect, it } from "vitest";
import { chainAuditEvents } from "#functions/domain/audit/chain-events.ts";
import { createTestToken } from "#tests/support/collector.ts";
import { useTestCore } from "#tests/support/core.ts";
import { readCsv } from "#tests/support/csv.ts";

const test = await useTestCore();
const { enroll } = await createTestToken(test);
await test.clock.advance(1000);
const host = await enroll("=web-1");
await test.clock.advance(1000);
const body = { reason_code: "lost" };
await test.admin.post(`/v1/collector/identities/${host.identityId}/revoke`, body);
await chainAuditEvents(test.core);

const download = async (file: string) => {
  const { body, headers } = await test.auditor.get<string>(`/v1/audit-events/${file}`);
  return { text: body, name: headers.get("content-disposition") };
};

it("hold every event of the filter, newest first, with names, as CSV", {
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

it("hold the same events as JSON lines, with the hashes of the chain", {
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

it("are audited with their filter, format and number of events", async () => {
  await test.clock.advance(1000);
  await download("export.csv?outcome=failure");
  expect(await test.events("action=audit.export&limit=1")).toMatchObject([
    {
      target: { type: "audit_export", id: "csv" },
      details: { filters: { outcome: "failure" }, rows: 0 },
    },
  ]);
});
