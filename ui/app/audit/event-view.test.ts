import { expect, it } from "vitest";
import { auditActions, auditSentences, changeActions } from "#proto/audit-actions.ts";
import type { AuditEventView, RecordNames } from "#proto/audit-event.ts";
import { actorPiece, eventFacts, sentencePieces } from "./event-view.ts";

const hostId = "01920000-0000-7000-8000-000000000001";
const configId = "01920000-0000-7000-8000-000000000002";
const certificateId = "01920000-0000-7000-8000-000000000003";
const policyId = "01920000-0000-7000-8000-000000000004";
const names: RecordNames = {
  [hostId]: {
    type: "collector_identity",
    name: "https://fleet.test/d/web%201",
    detail: null,
    identity_id: hostId,
  },
  [configId]: { type: "collector_config", name: "f8b4c0aaaa", detail: "edge", identity_id: null },
  [certificateId]: {
    type: "certificate",
    name: "a".repeat(32),
    detail: "https://fleet.test/d/web%201",
    identity_id: hostId,
  },
  [policyId]: { type: "enrollment_policy", name: "edge hosts", detail: null, identity_id: null },
};
const event = (change: Partial<AuditEventView>): AuditEventView => ({
  id: "01920000-0000-7000-8000-0000000000ff",
  seq: 1,
  occurred_at: "2026-11-20T16:45:03.000Z",
  actor: {
    type: "operator",
    id: "01920000-0000-7000-8000-00000000000a",
    display: "alice@example.test",
  },
  action: "identity.revoke",
  target: { type: "collector_identity", id: hostId },
  outcome: "success",
  reason_code: null,
  reason: null,
  remote_addr: null,
  request_id: null,
  details: {},
  prev_hash: null,
  hash: null,
  ...change,
});
const sentence = (change: Partial<AuditEventView>) =>
  sentencePieces(event(change), names)
    .map(({ text }) => text)
    .join("");

it("has a sentence for each action and outcome", () => {
  for (const [action, [success, failure]] of Object.entries(auditSentences))
    expect(
      [success, failure].every((text) => /^[a-z][^/]*[^./]$/.test(text)),
      action,
    ).toBe(true);
  expect(auditActions).toContain("operator.sign_in");
  expect(changeActions).toContain("config.publish");
  expect(changeActions).not.toContain("operator.sign_in");
});

it("names records instead of their ids, with links to their pages", () => {
  expect(sentencePieces(event({}), names)).toEqual([
    { text: "revoked the host " },
    { text: "web 1", full: "https://fleet.test/d/web%201", href: `/hosts/${hostId}` },
  ]);
  const assigned = event({ action: "config.assign", details: { config_id: configId } });
  expect(sentencePieces(assigned, names).map(({ text, href }) => [text, href])).toEqual([
    ["assigned the config ", undefined],
    ["f8b4c0 edge", `/changes/configs/${configId}`],
    [" to ", undefined],
    ["web 1", `/hosts/${hostId}`],
  ]);
  expect(actorPiece(event({}), names)).toMatchObject({
    text: "alice@example.test",
    href: "/changes/audit?actor=alice%40example.test",
  });
});

it("counts one row in the singular", () => {
  const read = (row_count: number) =>
    sentence({ action: "chat.tool_call", details: { tool: "query_sql", row_count } });
  expect([read(1), read(9)]).toEqual([
    "let chat read the fleet with query_sql, 1 row",
    "let chat read the fleet with query_sql, 9 rows",
  ]);
});

it("leaves out what an event does not record", () => {
  const target = { type: "collector_identity", id: hostId };
  const enrolled = { action: "collector.enroll", target };
  expect(sentence(enrolled)).toBe("enrolled");
  expect(sentence({ ...enrolled, details: { policy_id: policyId } })).toBe(
    "enrolled under the policy edge hosts",
  );
  expect(sentence({ ...enrolled, details: { certificate_id: certificateId } })).toBe(
    "enrolled with the certificate aaaaaaa…aaaaaaa",
  );
  expect(
    sentence({
      ...enrolled,
      outcome: "failure",
      target: { type: "remote_address", id: "10.0.0.1" },
      details: { count: 7 },
    }),
  ).toBe("was refused enrollment 7 times");
  expect(sentence({ action: "a.newer_core", target: { type: "thing", id: "x" } })).toBe(
    "a.newer_core on x",
  );
});

it("shows text of hosts as text, and no id as a link without a name", () => {
  const hostile = { type: "x", id: "\u202e<img src=x>" };
  expect(sentencePieces(event({ target: hostile }), names).at(-1)).toEqual({
    text: "[U+202E]<img src=x>",
  });
  const unknown = "01920000-0000-7000-8000-0000000000aa";
  expect(sentencePieces(event({ target: { type: "x", id: unknown } }), names).at(-1)).toEqual({
    text: unknown,
  });
  expect(sentencePieces(event({ target: { type: "x", id: "constructor" } }), names).at(-1)).toEqual(
    {
      text: "constructor",
    },
  );
});

it("lists what else it records", () => {
  const facts = eventFacts(
    event({ reason_code: "lost", details: { certificate_ids: [certificateId, "x"], empty: [] } }),
    names,
  );
  expect(facts.map(([name, values]) => [name, values.map(({ text }) => text).join()])).toEqual([
    ["action", "identity.revoke"],
    ["reason code", "lost"],
    ["certificate ids", "aaaaaaa…aaaaaaa,x"],
    ["number in the chain", "1"],
  ]);
});
