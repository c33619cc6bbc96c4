import { describe, expect, it } from "vitest";
import type { FleetHealthRow } from "#proto/fleet-health/columns.ts";
import { queueFigures } from "#tests/support/queue-figures.ts";
import { keepOrder, rowView as rowViewIn } from "./row-view.ts";

const now = Date.parse("2026-11-20T17:00:00.000Z");
const one = "a".repeat(64);
const other = `b${"c".repeat(63)}`;

const healthy: FleetHealthRow = {
  identity_id: "01920000-0000-7000-8000-000000000001",
  identity: "spiffe://example.test/collectors/edge-1",
  device_id: "edge-1",
  hostname: "edge-1.example.test",
  platform: "linux/amd64",
  version: "1.4.0",
  agent: "svc-collector",
  agent_name: null,
  labels: {},
  state: "healthy",
  conditions: [],
  enrolled_at: "2026-11-01T00:00:00.000Z",
  last_heartbeat_at: "2026-11-20T16:59:48.000Z",
  last_envelope_at: "2026-11-20T16:58:00.000Z",
  forwarding: "forwarding",
  forwarder: { connected: true, last_ack_at: "2026-11-20T16:58:00.000Z", last_error: null },
  certificate: {
    id: "01920000-0000-7000-8000-000000000002",
    status: "active",
    not_after: "2026-11-29T17:00:00.000Z",
    renew_after: "2026-11-22T00:00:00.000Z",
  },
  successor: null,
  config: {
    running_config_hash: one,
    desired_config_hash: one,
    last_known_good_config_hash: other,
    drift: "in_sync",
  },
  queue: queueFigures({
    records: 12,
    bytes: 1_572_864,
    max_bytes: 104_857_600,
    oldest_record_age_seconds: 3,
  }),
  renewal: { status: "ok", last_error: null },
  last_auth_failure: null,
  ingest_gap: null,
  process: { rss_bytes: 8e7, cpu_seconds: 12.5, restarts: 0 },
  core: "core-1",
  subnet: "10.1.2.0/24",
  incomplete_hours: null,
};

const rowView = (row: FleetHealthRow, at: number) => rowViewIn(row, at, "utc");

describe("a row of the table", () => {
  it("says once that a signal of the past was recent", () => {
    const { heartbeat } = rowViewIn(
      { ...healthy, last_heartbeat_at: "2026-11-20T16:59:59.999Z" },
      now,
      "utc",
      true,
    );
    expect(heartbeat).toEqual({ text: "recent", short: "", at: "", never: false });
  });

  it("names the last heartbeat once: in the reason, or beside it", () => {
    const condition = { state: "stale" as const, since: healthy.enrolled_at };
    const stale = { ...condition, evidence: "last heartbeat 240 s ago, threshold 180 s" };
    const lastHeartbeatOf = (row: object) => rowView({ ...healthy, ...row }, now).lastHeartbeat;
    expect(lastHeartbeatOf({})).toBe("heartbeat 12 s ago");
    expect(lastHeartbeatOf({ last_heartbeat_at: null })).toBe("no heartbeat yet");
    expect(lastHeartbeatOf({ conditions: [stale] })).toBe("");
  });

  it("counts ages to the time of the report", () => {
    expect(rowView(healthy, now)).toMatchObject({
      since: "",
      heartbeat: {
        text: "12 s ago",
        at: "2026-11-20 16:59:48 UTC",
        short: "16:59:48",
        never: false,
      },
      forwarding: { text: "2 min ago" },
      queue: "1.5 MiB · 1 %",
      queueDetail: "",
      queuePercent: 1,
      certificate: "expires in 9 d",
      certificateTone: "quiet",
      renewal: "",
      drift: "in sync",
      driftTone: "quiet",
      calm: true,
    });
  });

  it("claims nothing of an agent that speaks OpAMP which the agent does not report", () => {
    const agent = { agent: "otelcol", agent_name: "otelcol-contrib", incomplete_hours: 0 } as const;
    const config = { ...healthy.config, desired_config_hash: other } as const;
    const row = {
      ...healthy,
      ...agent,
      queue: queueFigures(),
      renewal: { status: "not_configured", last_error: null },
      config: { ...config, drift: "on_last_known_good" as const },
    };
    expect(rowView(row, now)).toMatchObject({
      platform: "otelcol-contrib · linux/amd64",
      forwarding: { text: "elsewhere", never: false },
      queue: "not reported",
      renewal: "",
      drift: "rolled back from bccccc",
      plain: { completeness: { text: "not proven" } },
    });
  });

  it("writes the date of a time on another day, and what waits for long", () => {
    const queue = { ...healthy.queue, bytes: 1_048_575, oldest_record_age_seconds: 60 };
    expect(
      rowView({ ...healthy, last_heartbeat_at: "2026-11-19T16:59:48.000Z", queue }, now),
    ).toMatchObject({
      heartbeat: { text: "1 d ago", short: "2026-11-19 16:59" },
      queue: "1,023 KiB",
      queueDetail: "oldest 1 min",
    });
  });

  it("says how many hours are not complete, and nothing before one is settled", () => {
    const completenessOf = (hours: number | null) =>
      rowView({ ...healthy, incomplete_hours: hours }, now).plain.completeness;
    expect(completenessOf(null)).toEqual({ text: "" });
    expect(completenessOf(0)).toEqual({ text: "complete" });
    expect(completenessOf(1)).toEqual({ text: "1 hour incomplete", tone: "warn" });
  });

  it("says how much was stored of the host in a day, and marks many times its usual", () => {
    const volumeOf = (day: number, usual: number | null) =>
      rowView({ ...healthy, volume: { day_bytes: day, usual_bytes: usual } }, now).plain.volume;
    expect(rowView(healthy, now).plain.volume).toEqual({ text: "" });
    expect(volumeOf(10_485_759, 1_048_576)).toEqual({ text: "9.9 MiB" });
    expect(volumeOf(10_485_760, 1_048_576)).toEqual({
      text: "10 MiB, 10× its usual",
      tone: "warn",
    });
    expect(volumeOf(10_485_760, null)).not.toHaveProperty("tone");
    expect(volumeOf(1_048_575, 1)).not.toHaveProperty("tone");
  });

  it("says that a budget holds the host, before the evidence of its first condition", () => {
    const hold = { budget: "test", since: "2026-11-20T16:20:00Z", until: "2026-11-20T17:00:00Z" };
    const conditions = [
      {
        state: "queue_at_risk" as const,
        since: "2026-11-20T16:30:00Z",
        evidence: "the queue is full",
      },
    ];
    expect(rowView(healthy, now).why).toBe("");
    expect(rowView({ ...healthy, hold }, now)).toMatchObject({
      since: "held by its budget",
      why: "held by its budget test until 17:00:00 UTC",
    });
    expect(rowView({ ...healthy, hold, conditions }, now).since).toBe(
      "held by its budget, for 30 min",
    );
    expect(rowView({ ...healthy, hold, conditions }, now).why).toBe(
      "held by its budget test until 17:00:00 UTC; the queue is full",
    );
  });

  it("is calm only if the host is healthy and forwards", () => {
    expect(rowView({ ...healthy, forwarding: "never" }, now).calm).toBe(false);
    expect(rowView({ ...healthy, state: "stale" }, now).calm).toBe(false);
  });

  it("shows a host that never forwarded apart from its heartbeat", () => {
    const view = rowView({ ...healthy, last_envelope_at: null }, now);
    expect(view.heartbeat.never).toBe(false);
    expect(view.forwarding).toEqual({ text: "never", at: "", short: "", never: true });
  });

  it("groups equal hashes, and leaves a missing hash out of every group", () => {
    const groups = (desired: string | null, running: string | null, good: string | null) => {
      const config = {
        ...healthy.config,
        desired_config_hash: desired,
        running_config_hash: running,
        last_known_good_config_hash: good,
      };
      return rowView({ ...healthy, config }, now).hashes.map(({ group }) => group);
    };
    expect(groups(one, one, other)).toEqual([1, 1, 2]);
    expect(groups(one, other, other)).toEqual([1, 2, 2]);
    expect(groups(null, one, other)).toEqual([0, 1, 2]);
    expect(groups(null, null, null)).toEqual([0]);
    expect(rowView(healthy, now).hashes[0]).toEqual({ label: "desired", text: "aaaaaa", group: 1 });
    const same = { ...healthy.config, last_known_good_config_hash: one };
    const { hashes, hashesRead } = rowView({ ...healthy, config: same }, now);
    expect(hashes).toHaveLength(1);
    expect(hashesRead).toBe("desired, running, last known good aaaaaa");
    expect(rowView(healthy, now).hashesRead).toBe(
      "desired aaaaaa, running aaaaaa, last known good bccccc",
    );
  });

  it("says of a stale host that it still forwards", () => {
    const conditions = [{ state: "stale" as const, since: "2026-11-20T16:48:00Z", evidence: "" }];
    const stale = { ...healthy, state: "stale" as const, conditions };
    expect(rowView(stale, now).since).toBe("still forwards, for 12 min");
    expect(rowView({ ...stale, forwarding: "stopped" }, now).since).toBe("for 12 min");
  });

  it("shows how long the state has applied, and how many other conditions apply", () => {
    const conditions: FleetHealthRow["conditions"] = [
      { state: "stale", since: "2026-11-20T16:48:00.000Z", evidence: "" },
      { state: "queue_at_risk", since: "2026-11-20T16:00:00.000Z", evidence: "" },
    ];
    const queue = {
      ...healthy.queue,
      bytes: 104_857_600,
      dropped_records_total: 1200,
      dead_letters: 3,
    };
    const stale = { ...healthy, state: "stale" as const, forwarding: null };
    expect(rowView({ ...stale, conditions, queue }, now)).toMatchObject({
      since: "for 12 min, +1 more",
      queueTone: "warn",
      queuePercent: 100,
      queueDetail: "1,200 dropped · 3 rejected",
    });
  });

  it("spells out marks with which a name could pose as another", () => {
    const posing = { ...healthy, device_id: "\u202e10-egde", identity: "spiffe://x/\u2067a" };
    expect(rowView(posing, now)).toMatchObject({
      device: "[U+202E]10-egde",
      identity: "spiffe://x/[U+2067]a",
    });
    expect(rowView({ ...healthy, device_id: " web  1" }, now).device).toBe("[U+0020]web [U+0020]1");
  });

  it("names the faults of certificate and renewal", () => {
    const certificate = {
      ...healthy.certificate,
      status: "expired" as const,
      not_after: "2026-11-20T14:00:00.000Z",
    };
    const renewal = { status: "failed", last_error: "certificate_revoked" };
    expect(rowView({ ...healthy, certificate, renewal }, now)).toMatchObject({
      certificate: "expired 3 h ago",
      certificateTone: "crit",
      renewal: "renewal failed: certificate_revoked",
      renewalTone: "crit",
    });
    const successor = healthy.certificate;
    expect(rowView({ ...healthy, successor, renewal }, now)).toMatchObject({
      renewal: "successor issued",
    });
    const revoked = { ...certificate, status: "revoked" as const };
    expect(rowView({ ...healthy, certificate: revoked }, now).certificate).toBe("revoked");
  });

  it("invents no figures for a host without a heartbeat", () => {
    const queue = queueFigures();
    const renewal = { status: null, last_error: null };
    expect(rowView({ ...healthy, queue, renewal, last_heartbeat_at: null }, now)).toMatchObject({
      queue: "unknown",
      queuePercent: -1,
      renewal: "",
    });
  });
});

describe("the order of rows after an automatic refresh", () => {
  const rows = (...ids: string[]) => ids.map((id) => ({ id, text: `new ${id}` }));

  it("stays while the rows are the same, with their new texts", () => {
    expect(keepOrder(rows("a", "b", "c"), rows("c", "a", "b"))).toEqual(rows("a", "b", "c"));
  });

  it("is the answer's when a row was added or removed", () => {
    expect(keepOrder(rows("a", "b"), rows("b", "a", "c"))).toEqual(rows("b", "a", "c"));
    expect(keepOrder(rows("a", "b"), rows("c", "a"))).toEqual(rows("c", "a"));
    expect(keepOrder([], rows("a"))).toEqual(rows("a"));
  });
});
