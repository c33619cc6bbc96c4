import { describe, expect, it } from "vitest";
import { auditActions } from "../../../../proto/audit-actions.ts";
import { type FleetCondition, fleetConditions } from "../../../../proto/fleet-health/vocabulary.ts";
import {
  conditionAdvice,
  dueView,
  eventFacts,
  eventTitle,
  evidenceParts,
  hashLines,
  pastView,
  queueFacts,
} from "./detail-view.ts";

const asOf = Date.parse("2026-11-20T16:45:03.000Z");

describe("the drawer", () => {
  it("has advice for every condition", () => {
    expect(Object.keys(conditionAdvice).sort()).toEqual([...fleetConditions].sort());
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
    const queue = {
      records: 1200,
      bytes: 52_428_800,
      max_bytes: 104_857_600,
      oldest_record_age_seconds: 90,
      dropped_records_total: 0,
      dead_letters: 4,
      forks_total: 1,
    };
    expect(queueFacts({ queue })).toEqual([
      ["Size", "50 MiB of 100 MiB, 50 %"],
      ["Records", "1,200"],
      ["Oldest record", "1 min"],
      ["Dropped in all", "0"],
      ["Dead letters", "4"],
      ["New queue ids", "1"],
    ]);
    const unknown = {
      records: null,
      bytes: null,
      max_bytes: null,
      oldest_record_age_seconds: null,
      dropped_records_total: null,
      dead_letters: null,
      forks_total: null,
    };
    expect(queueFacts({ queue: unknown })).toEqual([]);
  });

  it("names events in words, an unknown one by its action", () => {
    expect(eventTitle({ action: "certificate.renew", outcome: "success" })).toBe("Certificate renewed");
    expect(eventTitle({ action: "certificate.renew", outcome: "failure" })).toBe("Renewal failed");
    expect(eventTitle({ action: "host.moved", outcome: "success" })).toBe("host.moved");
    expect(eventTitle({ action: "host.moved", outcome: "failure" })).toBe("host.moved: failed");
  });

  it("has a title in words for every action that core writes", () => {
    for (const action of auditActions)
      for (const outcome of ["success", "failure"] as const)
        expect(eventTitle({ action, outcome }), action).toMatch(/^[A-Z][a-z][^._]*$/);
    expect(eventTitle({ action: "toString", outcome: "success" })).toBe("toString");
  });

  it("lists the details of an event, nested ones as JSON, without empty ones", () => {
    expect(
      eventFacts({
        reason_code: "key_leak",
        details: { certificate_ids: ["a", "b"], policy: null, serial_number: "01", n: 0 },
      }),
    ).toEqual([
      ["reason", "key_leak"],
      ["certificate ids", '["a","b"]'],
      ["serial number", "01"],
      ["n", "0"],
    ]);
    expect(eventFacts({ reason_code: null, details: {} })).toEqual([]);
  });
});

const read = (state: FleetCondition, evidence: string) =>
  evidenceParts({ state, evidence })
    .map(({ text, exact }) => (exact === undefined ? text : `${text} (${exact})`))
    .join("");

describe("the evidence of a condition", () => {
  it.each([
    [
      "stale",
      "last heartbeat 7500 s ago, threshold 180 s",
      "last heartbeat 2 h 5 min (7500 s) ago, threshold 3 min (180 s)",
    ],
    ["stale", "last heartbeat 45 s ago, threshold 30 s", "last heartbeat 45 s ago, threshold 30 s"],
    [
      "cert_expiring",
      "the certificate has 0 s left, threshold 453600 s, and no successor",
      "the certificate has 0 s left, threshold 5 d 6 h (453600 s), and no successor",
    ],
    [
      "renewal_failed",
      "the certificate expired 86400 s ago and has no successor",
      "the certificate expired 1 d (86400 s) ago and has no successor",
    ],
    [
      "queue_at_risk",
      "the queue holds 99614720 of 104857600 bytes, oldest record 3600 s",
      "the queue holds 95 MiB of 100 MiB (99614720 of 104857600 bytes), oldest record 1 h (3600 s)",
    ],
    [
      "queue_at_risk",
      "records were dropped, rejected or lost since the previous heartbeat, 123456 dropped and 7 dead letters in all, up to 4321 lost by a database restore",
      "records were dropped, rejected or lost since the previous heartbeat, 123,456 (123456) dropped and 7 dead letters in all, up to 4,321 (4321) lost by a database restore",
    ],
  ] as const)("of %s, %j, reads %j", (state, evidence, text) => expect(read(state, evidence)).toBe(text));

  it("in a host's own words is left unchanged", () => {
    for (const [state, evidence] of [
      ["config_invalid", "sources[0].timeout: must be below 7500 s"],
      ["renewal_failed", "core answered 503, next attempt in 600 s"],
    ] as const)
      expect(evidenceParts({ state, evidence })).toEqual([{ text: evidence }]);
  });
});
