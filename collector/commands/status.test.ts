import { stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import * as v from "valibot";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { runCollector } from "#tests/collector/support/collector-command.ts";
import {
  createRunningCollector,
  type RunningCollector,
} from "#tests/collector/support/running-collector.ts";
import { CollectorStatus } from "../status/fetch-status.ts";
import { describeStatus } from "./status.ts";

let collector: RunningCollector;
beforeEach(async () => {
  collector = await createRunningCollector();
});
afterEach(() => collector.stop());

const status = (...more: string[]) =>
  runCollector(["status", "--config", collector.host.config, ...more]);

describe("status", () => {
  it("prints the running collector's status as one object and as aligned lines, for its own user alone", async () => {
    await collector.start((_, { append }) => ({
      name: "counter",
      start: async () => {
        const record = { kind: "log_line", observedAtMs: 0, source: "counter", attributes: {} };
        await append([{ ...record, payload: Buffer.from("a record") }]);
      },
      stop: async () => undefined,
      counters: () => ({ lines_read: 1 }),
    }));
    await expect.poll(() => collector.peer.stored.length).toBe(1);
    await expect.poll(() => collector.heartbeats().length).toBeGreaterThan(0);
    await expect
      .poll(async () => JSON.parse((await status("--json")).out))
      .toMatchObject({
        identity: collector.host.identity,
        config: {
          valid: true,
          errors: [],
          running_config_hash: expect.stringMatching(/^[0-9a-f]{64}$/),
        },
        queue: { records: 0, max_bytes: 104_857_600, dead_letters: 0, at_risk: false },
        quarantine: { files: 0, records: 0, lost_records: 0 },
        forwarder: {
          endpoint: collector.peer.endpoint,
          connected: true,
          last_ack_at: expect.any(String),
        },
        heartbeat: { last_success_at: expect.any(String), last_error: null },
        certificate: { serial_number: "1a2b3c", not_after: "2099-01-01T00:00:00.000Z" },
        renewal: {
          status: "ok",
          next_attempt_at: expect.stringMatching(/^20[67]\d-/),
          last_error: null,
        },
        sources: [{ name: "counter", counters: { lines_read: 1 } }],
      });
    const { code, out, err } = await status();
    expect([code, err]).toEqual([0, ""]);
    expect(out).toMatch(/^identity {5}https:\/\/fleet\.test/m);
    const socket = await stat(join(collector.host.dir, "data", "status.sock"));
    expect(socket.mode & 0o777).toBe(0o600);
    for (const hidden of ["PRIVATE KEY", "a record", "tls.key"]) expect(out).not.toContain(hidden);
  });

  it("reports that no collector runs, also beside the socket of a killed one", async () => {
    const message =
      "svc-collector status: no collector runs with this config; start it with svc-collector run\n";
    expect(await status()).toEqual({ code: 1, out: "", err: message });
    const { done } = await collector.start();
    await expect.poll(async () => (await status()).code).toBe(0);
    await writeFile(collector.host.config, "forwarder: [");
    expect(await status()).toMatchObject({ code: 78 });
    await collector.configure("sources: []\n");
    collector.end();
    await done;
    await writeFile(join(collector.host.dir, "data", "status.sock"), "");
    const { code, out } = await status("--json");
    expect([code, JSON.parse(out).error.code]).toEqual([1, "not_running"]);
  });
});

it("describeStatus aligns every line, formats durations in two units and sizes in one, and lists errors", () => {
  const found = {
    version: "1.2.3",
    commit: "abc",
    pid: 42,
    started_at: "2026-06-01T08:00:00.000Z",
    now: "2026-06-03T11:04:05.000Z",
    identity: "https://fleet.test/d/1",
    labels: { env: "prod", team: "payments" },
    config: {
      valid: true,
      errors: ["desired config: buffer.dir must stay as it is on this host"],
      running_config_hash: "a".repeat(64),
      desired_config_hash: "b".repeat(64),
      last_known_good_config_hash: null,
    },
    queue: {
      records: 12,
      bytes: 4200,
      max_bytes: 104_857_600,
      oldest_record_age_seconds: 3,
      dropped_records_total: 0,
      dead_letters: 1,
      forks_total: 0,
      file_gaps_total: 2,
      file_gap_bytes_total: 2048,
      at_risk: true,
    },
    conditions: [
      {
        code: "queue_unwritable",
        since: "2026-06-03T11:00:00.000Z",
        reason: "disk is full",
        path: "/var/lib/q",
      },
    ],
    quarantine: { files: 1, records: 7, lost_records: 5 },
    forwarder: {
      endpoint: "core:8443",
      connected: false,
      last_ack_at: "2026-06-03T11:03:00.000Z",
      last_error: "unavailable: away",
    },
    routes: {
      ingest: "through the proxy proxy.test:3128",
      management: "direct",
      note: "HTTPS_PROXY is set and not used: proxy is not configured",
    },
    trust: {
      ingest: {
        bundle: 7,
        settled: false,
        fault: "number 8 is empty",
        authorities: [
          { name: "CN=Old root", not_after: "2026-08-01T00:00:00.000Z" },
          { name: "CN=New root", not_after: "2036-01-01T00:00:00.000Z" },
        ],
      },
      management: null,
    },
    heartbeat: null,
    certificate: {
      serial_number: "1a",
      fingerprint_sha256: "c".repeat(64),
      not_before: "2026-06-01T00:00:00.000Z",
      not_after: "2026-06-21T00:00:00.000Z",
    },
    renewal: {
      status: "retrying",
      last_attempt_at: null,
      next_attempt_at: "2026-06-03T11:04:35.000Z",
      last_error: "timeout: core did not answer in time",
    },
    sources: [
      { name: "otlp", counters: {} },
      { name: "host_metrics", counters: { stored: 51, skipped: 2 } },
      {
        name: "file",
        counters: { files: 3 },
        warnings: [
          {
            code: "no_match",
            level: "warning",
            path: "/a/*.log",
            count: 1,
            message: "matches no file",
          },
          { code: "polled", level: "note", path: "/nfs", count: 2, message: "polled" },
        ],
      },
    ],
  };
  expect(describeStatus(v.parse(CollectorStatus, found))).toBe(
    `collector    1.2.3, pid 42, up 2 d 3 h
identity     https://fleet.test/d/1
labels       env=prod, team=payments
config       valid, aaaaaaaaaaaa
             desired config: buffer.dir must stay as it is on this host
             desired config: bbbbbbbbbbbb
queue        12 records, 4.1 KiB of 100 MiB, oldest 3 s, 0 dropped, 1 dead letters
             at risk: queue_unwritable since 2026-06-03T11:00:00.000Z: disk is full (/var/lib/q)
             quarantined files: 1, with 7 records; see quarantine-* in the data directory
             files and journals rotated away before their end was read: 2, 2 KiB known to be lost
             lost by damage of the queue's files: 5 records
forwarding   not connected to core:8443, last ack 1 min 5 s ago
             unavailable: away
routes       ingest through the proxy proxy.test:3128
             management direct
             HTTPS_PROXY is set and not used: proxy is not configured
trust        ingest by CA bundle 7, and what counted before it
               CN=Old root, until 2026-08-01T00:00:00Z
               CN=New root, until 2036-01-01T00:00:00Z
               warning: the CA bundle: number 8 is empty
             management by the authorities of the system
heartbeats   off: the config has no management.core_url
certificate  valid until 2026-06-21T00:00:00Z (in 17 d 12 h), serial 1a
renewal      retrying, next at 2026-06-03T11:04:35Z (in 30 s)
             timeout: core did not answer in time
sources      otlp
             host_metrics, 51 stored, 2 skipped
             file, 3 files
               warning: /a/*.log: matches no file
               note: /nfs and 1 more: polled
`,
  );
  const last_error =
    "budget_exceeded: core holds the host by its budget small until 2026-06-03T12:00:00.000Z";
  const forwarder = { ...found.forwarder, last_error };
  const held = describeStatus(v.parse(CollectorStatus, { ...found, forwarder }));
  expect(held).toContain(`forwarding   held by its budget at core:8443, last ack 1 min 5 s ago
             ${last_error}
`);
  const { ingest } = found.trust;
  const trust = {
    ingest: { ...ingest, bundle: null, settled: true },
    management: { ...ingest, settled: null },
  };
  const given = describeStatus(v.parse(CollectorStatus, { ...found, trust }));
  expect(given).toContain("ingest by authorities without a number\n");
  expect(given).toContain("management by ca_file\n");
});
