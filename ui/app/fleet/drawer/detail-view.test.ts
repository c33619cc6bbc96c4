import { describe, expect, it } from "vitest";
import { fleetConditions } from "../../../../proto/fleet-health/vocabulary.ts";
import { conditionAdvice, dueView, eventFacts, eventTitle, hashLines, pastView, queueFacts } from "./detail-view.ts";

const asOf = Date.parse("2026-11-20T16:45:03.000Z");

describe("the drawer", () => {
  it("has advice for every condition", () => {
    expect(Object.keys(conditionAdvice).sort()).toEqual([...fleetConditions].sort());
  });

  it("shows moments both ways", () => {
    expect(pastView("2026-11-17T12:45:03.000Z", asOf)).toEqual({
      relative: "3 d 4 h ago",
      absolute: "2026-11-17 12:45:03 UTC",
      iso: "2026-11-17T12:45:03.000Z",
    });
    expect(pastView(null, asOf)).toBeUndefined();
    expect(dueView("2026-11-29T16:45:03.000Z", asOf).relative).toBe("in 9 d");
  });

  it("says which hashes are the same", () => {
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

  it("lists of the queue what is known", () => {
    const queue = {
      records: 1200,
      bytes: 52_428_800,
      max_bytes: 104_857_600,
      oldest_record_age_seconds: 90,
      dropped_records_total: 0,
    };
    expect(queueFacts({ queue })).toEqual([
      ["Size", "50 MiB of 100 MiB, 50 %"],
      ["Records", "1,200"],
      ["Oldest record", "1 min"],
      ["Dropped in all", "0"],
    ]);
    const unknown = {
      records: null,
      bytes: null,
      max_bytes: null,
      oldest_record_age_seconds: null,
      dropped_records_total: null,
    };
    expect(queueFacts({ queue: unknown })).toEqual([]);
  });

  it("tells events in words, an unknown one by its name", () => {
    expect(eventTitle({ action: "certificate.renew", outcome: "success" })).toBe("Certificate renewed");
    expect(eventTitle({ action: "certificate.renew", outcome: "failure" })).toBe("Renewal failed");
    expect(eventTitle({ action: "host.moved", outcome: "success" })).toBe("host.moved");
    expect(eventTitle({ action: "host.moved", outcome: "failure" })).toBe("host.moved: failed");
  });

  it("lists the details of an event, nested ones as JSON, empty ones not", () => {
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
