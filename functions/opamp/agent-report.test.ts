import { create, type MessageInitShape } from "@bufbuild/protobuf";
import * as v from "valibot";
import { expect, it } from "vitest";
import type { ComponentHealthSchema } from "#proto/gen/opamp/v1/opamp_pb.js";
import { AgentToServerSchema } from "#proto/gen/opamp/v1/opamp_pb.js";
import { HeartbeatRequest } from "#proto/management/heartbeat.ts";
import { agentReport, namesError, unhealthyReason } from "./agent-report.ts";
import { effectiveConfigText } from "./effective-config.ts";

type Health = MessageInitShape<typeof ComponentHealthSchema>;

const config = { valid: true, errors: [], running_config_hash: null };
const attribute = (key: string, text: string) => ({
  key,
  value: { value: { case: "stringValue" as const, value: text } },
});
const second = 1_000_000_000n;
const describe = (
  identifying: Record<string, string>,
  others: Record<string, string>,
  health?: Health,
) =>
  create(AgentToServerSchema, {
    instanceUid: new Uint8Array(16).fill(7),
    agentDescription: {
      identifyingAttributes: Object.entries(identifying).map((each) => attribute(...each)),
      nonIdentifyingAttributes: Object.entries(others).map((each) => attribute(...each)),
    },
    ...(health && { health: health as never }),
  });
const reportOf = (...status: Parameters<typeof describe>) =>
  agentReport(describe(...status), config);

it("takes names, platform and labels from the description of an agent", () => {
  const report = reportOf(
    { "service.name": "otelcol-contrib", "service.version": "0.149.0" },
    { "host.name": "edge-1", "os.type": "linux", "host.arch": "amd64", env: "prod", team: "a b" },
    { healthy: true, startTimeUnixNano: 60n * second },
  );
  expect(report).toMatchObject({
    boot_id: `${"07".repeat(16)}-60000`,
    agent_name: "otelcol-contrib",
    collector: { version: "0.149.0", hostname: "edge-1", platform: "linux/amd64" },
    labels: { env: "prod" },
    conditions: [],
  });
});

it("has a report that core stores for whatever an agent writes about itself", () => {
  const strange = ["", "\0", "\n\u009b", "x".repeat(10_000), "é/\ud800", "<script>", "constructor"];
  for (const text of strange) {
    const names = ["service.name", "service.version", "host.name", "os.type", "host.arch", text];
    const all = Object.fromEntries(names.map((name) => [name, text]));
    const report = reportOf(all, all, {
      startTimeUnixNano: 2n ** 64n - 1n,
      lastError: text || "down",
      componentHealthMap: { [text]: { lastError: "x", statusTimeUnixNano: 2n ** 63n } },
    });
    const { agent_name: name, ...request } = report;
    const sent = { ...request, sent_at: "2026-01-01T00:00:00Z", proof: "" };
    expect(v.safeParse(HeartbeatRequest, sent).issues, JSON.stringify(text)).toBeUndefined();
    expect(name?.length).toBeGreaterThan(0);
  }
});

it("names the innermost unhealthy components, since when, and none while the agent starts", () => {
  const started = { startTimeUnixNano: second };
  const exporter = { lastError: "connection refused", statusTimeUnixNano: 5n * second };
  const rows: [Health | undefined, string | undefined, number][] = [
    [undefined, undefined, 0],
    [{ healthy: true, ...started }, undefined, 0],
    [{}, undefined, 0],
    [{ ...started, status: "StatusStarting" }, undefined, 0],
    [{ ...started, status: "StatusPermanentError" }, "StatusPermanentError", 1],
    [{ ...started }, "it reports no reason", 1],
    [{ lastError: "exit code 1" }, "exit code 1", 1],
    [
      {
        ...started,
        lastError: "a part is down",
        componentHealthMap: {
          "pipeline:logs": {
            ...started,
            componentHealthMap: {
              "exporter:otlp": exporter,
              "exporter:debug": { healthy: true },
              "receiver:otlp": { ...exporter, status: "StatusRecoverableError" },
            },
          },
          extensions: { healthy: true },
        },
      },
      "pipeline:logs/exporter:otlp: connection refused",
      2,
    ],
  ];
  for (const [health, reason, count] of rows) {
    const status = describe({}, {}, health);
    expect(unhealthyReason(status.health)).toBe(reason);
    expect(agentReport(status, config).conditions).toHaveLength(count);
  }
  expect(reportOf({}, {}, rows.at(-1)?.[0]).conditions).toMatchObject([
    { path: "pipeline:logs/exporter:otlp", since: "1970-01-01T00:00:05.000Z" },
    { reason: "StatusRecoverableError: connection refused" },
  ]);
  const many = Object.fromEntries(Array.from({ length: 1_000 }, (_, at) => [`c${at}`, exporter]));
  expect(
    reportOf({}, {}, { ...started, componentHealthMap: many }).conditions.length,
  ).toBeLessThanOrEqual(20);
});

it("finds errors in a health, and none while the agent starts or stops", () => {
  const part = (health: Health) => ({
    componentHealthMap: { a: { componentHealthMap: { b: health } } },
  });
  const rows: [Health, boolean][] = [
    [{}, false],
    [{ status: "StatusStopping", ...part({ status: "StatusStopped" }) }, false],
    [{ lastError: "Supervisor is shutdown" }, false],
    [{ lastError: "exit code 1" }, true],
    [part({ lastError: "connection refused" }), true],
    [part({ status: "StatusFatalError" }), true],
  ];
  for (const [health, expected] of rows) {
    const sent = describe({}, {}, health).health;
    expect(sent && namesError(sent), JSON.stringify(health)).toBe(expected);
  }
});

it("shows an effective config without the values of secrets, however they are written", () => {
  const text = `exporters:
  otlp:
    endpoint: https://user:hunter2@backend:4317
    headers:
      Authorization: "Bearer hunter2"
      "x-api-key": |
        hunter2
        hunter2
      x: {api_token: hunter2, y: 1}
    tls: {ca_file: /etc/ca.pem}
  - password: hunter2
service: {}`;
  const body = new TextEncoder().encode(text);
  const shown = effectiveConfigText({
    configMap: { configMap: { "": { body, contentType: "" } } },
  } as never);
  expect(shown).not.toContain("hunter2");
  for (const kept of ["endpoint:", "tls: {ca_file: /etc/ca.pem}", "service: {}", "y: 1"])
    expect(shown).toContain(kept);
});
