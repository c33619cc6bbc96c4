import * as v from "valibot";
import { describe, expect, it } from "vitest";
import { cutText, parseTimestamp, StoredTimestamp } from "../values.ts";
import { HeartbeatRequest } from "./heartbeat.ts";

const heartbeat = {
  sent_at: "2026-11-20T12:00:00.000Z",
  proof: "",
  boot_id: "b1",
  collector: {
    version: "1.2.3",
    commit: "abc",
    hostname: "web-1",
    platform: "linux/amd64",
    started_at: "2026-11-20T11:00:00.000Z",
  },
  config: { valid: true, errors: [], running_config_hash: null },
  queue: {
    records: 0,
    bytes: 0,
    max_bytes: 104857600,
    oldest_record_age_seconds: null,
    dropped_records_total: 0,
    at_risk: false,
  },
  forwarder: { connected: true, last_ack_at: null, last_error: null },
  renewal: {
    status: "not_configured",
    last_attempt_at: null,
    next_attempt_at: null,
    last_error: null,
  },
};

const paths = (body: unknown) => {
  const result = v.safeParse(HeartbeatRequest, body);
  return result.success ? [] : result.issues.map((issue) => v.getDotPath(issue));
};

describe("HeartbeatRequest", () => {
  it("accepts a minimal heartbeat and drops unknown fields", () => {
    expect(v.parse(HeartbeatRequest, { ...heartbeat, new_field: 1 })).toEqual({
      ...heartbeat,
      conditions: [],
      queue: {
        ...heartbeat.queue,
        dead_letters: 0,
        forks_total: 0,
        file_gaps_total: 0,
        file_gap_bytes_total: 0,
      },
    });
  });

  it("H5: rejects counters below 0 and beyond 2^53 - 1", () => {
    for (const records of [-1, 2 ** 53, 2 ** 63, 0.5, Number.NaN, "1", null]) {
      expect(paths({ ...heartbeat, queue: { ...heartbeat.queue, records } })).toEqual([
        "queue.records",
      ]);
    }
    const most = { ...heartbeat.queue, records: Number.MAX_SAFE_INTEGER };
    expect(paths({ ...heartbeat, queue: most })).toEqual([]);
  });

  it("H5: rejects control characters in names and ids", () => {
    for (const hostname of [
      "web\u001b[31m",
      "web\0",
      "web\n",
      "web\u009b1m",
      "web\u007f",
      "",
      "web\ud800",
    ]) {
      expect(paths({ ...heartbeat, collector: { ...heartbeat.collector, hostname } })).toEqual([
        "collector.hostname",
      ]);
    }
    const { collector } = heartbeat;
    expect(paths({ ...heartbeat, collector: { ...collector, version: "1\n" } })).toEqual([
      "collector.version",
    ]);
    expect(paths({ ...heartbeat, collector: { ...collector, platform: "linux" } })).toEqual([
      "collector.platform",
    ]);
    expect(paths({ ...heartbeat, boot_id: "\t" })).toEqual(["boot_id"]);
  });

  it("removes control characters from free text and truncates it to 500 characters", () => {
    const text = `\u001b[31m${"é".repeat(499)}\u{1f600}tail`;
    const parsed = v.parse(HeartbeatRequest, {
      ...heartbeat,
      config: { ...heartbeat.config, errors: Array(1000).fill("a\0b") },
      forwarder: { ...heartbeat.forwarder, last_error: text },
    });
    expect(parsed.config.errors).toEqual(Array(20).fill("ab"));
    expect(parsed.forwarder.last_error).toBe(`[31m${"é".repeat(496)}`);
    expect(cutText("a\u{1f600}b", 2)).toBe("a\u{1f600}");
  });
});

it.each([
  ["2026-11-20T12:00:00.123Z", "2026-11-20T12:00:00.123Z"],
  ["2026-11-20T12:00:00Z", "2026-11-20T12:00:00.000Z"],
  ["2026-11-20T12:00:00.5Z", "2026-11-20T12:00:00.500Z"],
  ["0001-01-01T00:00:00.000Z", "0001-01-01T00:00:00.000Z"],
  ["9999-12-31T23:59:59.999999999Z", "9999-12-31T23:59:59.999Z"],
])("StoredTimestamp %s is stored as %s", (sent, stored) => {
  expect(v.parse(StoredTimestamp, sent)).toBe(stored);
});

it("Timestamp accepts real UTC times up to year 9999 and nothing else", () => {
  expect(parseTimestamp("9999-12-31T23:59:59.999Z")).toBe(253402300799999);
  expect(parseTimestamp("2026-11-20T12:00:00Z")).toBe(Date.UTC(2026, 10, 20, 12));
  expect(parseTimestamp("2026-11-20T12:00:00.123999999Z")).toBe(
    Date.UTC(2026, 10, 20, 12, 0, 0, 123),
  );
  for (const text of [
    "2026-02-30T00:00:00Z",
    "2026-11-20T24:00:00Z",
    "2026-11-20T12:00:60Z",
    "2026-11-20 12:00:00Z",
    "2026-11-20T12:00:00+00:00",
    "2026-11-20T12:00:00",
    "2026-11-20T12:00:00.Z",
    "+010000-01-01T00:00:00Z",
    "",
  ]) {
    expect(parseTimestamp(text)).toBeUndefined();
  }
});
