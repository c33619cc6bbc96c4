import { expect, it } from "vitest";
import { auditActions } from "#proto/audit-actions.ts";
import { type CertificateStatus, fleetConditions } from "#proto/fleet-health/vocabulary.ts";
import { queueFigures } from "#tests/support/queue-figures.ts";
import {
  adviceOn,
  dueView,
  eventTitle,
  hashLines,
  historyFacts,
  pastView,
  queueFacts,
} from "./detail-view.ts";

const asOf = Date.parse("2026-11-20T16:45:03.000Z");

const host = (reenrollment: "deny" | "replace", status: CertificateStatus) => ({
  policy: { id: "01920000-0000-7000-8000-000000000003", name: "web servers", reenrollment },
  item: { certificate: { id: "", status, not_after: "", renew_after: "" } },
});

it("has advice for every condition", () => {
  for (const condition of fleetConditions)
    expect(adviceOn(condition, host("deny", "active")).length).toBeGreaterThan(20);
});

it("advises to enroll again only where the policy allows it", () => {
  const again = "enroll the host again with a new bootstrap token.";
  expect(adviceOn("renewal_failed", host("deny", "expired"))).toContain(`by itself: ${again}`);
  expect(adviceOn("renewal_failed", host("replace", "active"))).toContain(`by itself: ${again}`);
  const denied = adviceOn("renewal_failed", host("deny", "active"));
  expect(denied).toContain(
    "The policy web servers rejects another enrollment (409 identity_exists)",
  );
  expect(denied).toContain(`revoke the certificate, then ${again}`);
});

it("shows timestamps relative and absolute", () => {
  expect(pastView("2026-11-17T12:45:03.000Z", asOf)).toEqual({
    relative: "3 d 4 h ago",
    absolute: "2026-11-17 12:45:03 UTC",
    iso: "2026-11-17T12:45:03.000Z",
  });
  expect(pastView(null, asOf)).toBeUndefined();
  expect(dueView("2026-11-29T16:45:03.000Z", asOf).relative).toBe("in 9 d");
});

it("names equal hashes", () => {
  const lines = hashLines({
    desired_config_hash: "aa",
    running_config_hash: "bb",
    last_known_good_config_hash: "bb",
    drift: "on_last_known_good",
  });
  expect(lines.map(({ same }) => same)).toEqual([undefined, undefined, "running"]);
  const none = hashLines({
    desired_config_hash: null,
    running_config_hash: null,
    last_known_good_config_hash: null,
    drift: "unknown",
  });
  expect(none.map(({ same }) => same)).toEqual([undefined, undefined, undefined]);
});

it("lists the known figures of the queue", () => {
  const queue = queueFigures({
    records: 1200,
    bytes: 52_428_800,
    max_bytes: 104_857_600,
    oldest_record_age_seconds: 90,
    dropped_records_total: 0,
    dead_letters: 4,
    forks_total: 1,
  });
  expect(queueFacts({ queue })).toEqual([
    ["Size", "50 MiB of 100 MiB, 50 %"],
    ["Records", "1,200"],
    ["Oldest record", "1 min"],
    ["Dropped in all", "0"],
    ["Dead letters", "4"],
    ["New queue ids", "1"],
  ]);
  expect(queueFacts({ queue: queueFigures() })).toEqual([]);
});

it("names events in words, an unknown one by its action", () => {
  expect(eventTitle({ action: "certificate.renew", outcome: "success" })).toBe(
    "Certificate renewed",
  );
  expect(eventTitle({ action: "certificate.renew", outcome: "failure" })).toBe("Renewal failed");
  expect(eventTitle({ action: "host.moved", outcome: "success" })).toBe("host.moved");
  expect(eventTitle({ action: "host.moved", outcome: "failure" })).toBe("host.moved: failed");
});

it("has a title in words for every action on a host or its certificate", () => {
  const ofHosts =
    /^(collector|certificate|identity|queue|ingest|account|host|host_diag)\.|^config\.(assign|clear|rollback)$|^budget\.(hold|release)$/;
  const actions = auditActions.filter((action) => ofHosts.test(action));
  expect(actions.length).toBeGreaterThan(15);
  for (const action of actions)
    for (const outcome of ["success", "failure"] as const)
      expect(eventTitle({ action, outcome }), action).toMatch(/^[A-Z][a-z][^._]*$/);
  expect(eventTitle({ action: "toString", outcome: "success" })).toBe("toString");
});

it("lists the details of an event, nested ones as JSON, without empty ones", () => {
  expect(
    historyFacts({
      reason_code: "key_leak",
      details: {
        certificate_ids: ["a", "b"],
        policy: null,
        serial_number: "01",
        n: 0,
        identity: "spiffe://a",
      },
    }),
  ).toEqual([
    ["reason", "key_leak"],
    ["certificate ids", '["a","b"]'],
    ["serial number", "01"],
    ["n", "0"],
  ]);
  expect(historyFacts({ reason_code: null, details: {} })).toEqual([]);
});

it("names a config of an event by its hash, with its page, and leaves out ids", () => {
  const details = {
    config_id: "01920000-0000-7000-8000-000000000009",
    config_hash: "f8b4c0aa",
    token_id: "t",
  };
  expect(historyFacts({ reason_code: null, details })).toEqual([
    ["config", "f8b4c0", "/changes/configs/01920000-0000-7000-8000-000000000009"],
  ]);
});
