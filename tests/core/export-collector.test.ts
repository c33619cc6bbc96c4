import { existsSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import {
  type DescMessage,
  fromBinary,
  fromJson,
  type JsonValue,
  toBinary,
} from "@bufbuild/protobuf";
import { afterEach, beforeEach, expect, it } from "vitest";
import { ExportLogsServiceRequestSchema } from "#proto/gen/opentelemetry/proto/collector/logs/v1/logs_service_pb.js";
import { ExportMetricsServiceRequestSchema } from "#proto/gen/opentelemetry/proto/collector/metrics/v1/metrics_service_pb.js";
import { ExportTraceServiceRequestSchema } from "#proto/gen/opentelemetry/proto/collector/trace/v1/trace_service_pb.js";
import { peerPath } from "#scripts/bench/peers/programs.ts";
import {
  type RunningProgram,
  startProgram as startPeer,
} from "#scripts/bench/support/processes.ts";
import { findPorts } from "#scripts/ports.ts";
import { type TestDatabase, useTestDatabase } from "../support/database.ts";
import { type OtlpBackend, startOtlpBackend } from "../support/ingest/otlp-backend.ts";
import { newFolder } from "../support/new-folder.ts";
import { type Program, startProgram } from "../support/program.ts";
import { openEnvelopeStore } from "../support/stored-envelopes.ts";

/* The receivers of an export: ours, and the OpenTelemetry Collector where `bench peers` has built it. Both lead to our backend. */

let database: TestDatabase;
let store: Awaited<ReturnType<typeof openEnvelopeStore>>;
let backend: OtlpBackend;
let folder: string;
let collector: RunningProgram | undefined;
const programs: Program[] = [];
beforeEach(async () => {
  database = await useTestDatabase();
  store = await openEnvelopeStore(database);
  backend = await startOtlpBackend();
  folder = newFolder();
});
afterEach(async () => {
  for (const program of programs.splice(0)) {
    program.child.kill("SIGKILL");
    await program.exited;
  }
  await collector?.stop("SIGKILL");
  collector = undefined;
  await backend.close();
  await store.close();
});

/** Starts the Collector between ports of its own and the backend. */
const startCollector = async (program: string) => {
  const [grpc, http] = (await findPorts(2)).map((port) => `127.0.0.1:${port}`);
  const config = join(folder, "otelcol.yaml");
  const pipeline = "{receivers: [otlp], exporters: [otlp]}";
  await writeFile(
    config,
    `receivers: {otlp: {protocols: {grpc: {endpoint: ${grpc}}, http: {endpoint: ${http}}}}}
exporters: {otlp: {endpoint: ${new URL(backend.grpcUrl).host}, tls: {insecure: true}}}
service:
  telemetry: {metrics: {level: none}}
  pipelines: {traces: ${pipeline}, logs: ${pipeline}, metrics: ${pipeline}}
`,
  );
  const command = [program, "--config", config] as const;
  collector = await startPeer({ command, ready: /Everything is ready/ });
  return { grpc: `http://${grpc}`, http: `http://${http}` };
};

const encode = (schema: DescMessage, request: JsonValue) =>
  toBinary(schema, fromJson(schema, request));
const resource = { attributes: [{ key: "host.name", value: { stringValue: "web-1" } }] };
const idOf = (bytes: number) => crypto.getRandomValues(new Uint8Array(bytes)).toBase64();
const spans = (...names: string[]) => {
  const all = names.map((name) => ({ name, traceId: idOf(16), spanId: idOf(8) }));
  const resourceSpans = [{ resource, scopeSpans: [{ spans: all }] }];
  return encode(ExportTraceServiceRequestSchema, { resourceSpans });
};
const logs = (...texts: string[]) => {
  const logRecords = texts.map((stringValue) => ({ body: { stringValue } }));
  const resourceLogs = [{ resource, scopeLogs: [{ logRecords }] }];
  return encode(ExportLogsServiceRequestSchema, { resourceLogs });
};
const metrics = (...names: string[]) => {
  const gauge = { dataPoints: [{ timeUnixNano: "1", asDouble: 1 }] };
  const resourceMetrics = [
    { resource, scopeMetrics: [{ metrics: names.map((name) => ({ name, gauge })) }] },
  ];
  return encode(ExportMetricsServiceRequestSchema, { resourceMetrics });
};
const metricNames = () =>
  backend.accepted.flatMap(({ signal, body }) =>
    signal === "metrics"
      ? fromBinary(ExportMetricsServiceRequestSchema, body).resourceMetrics.flatMap(
          ({ scopeMetrics }) =>
            scopeMetrics.flatMap((scope) => scope.metrics.map(({ name }) => name)),
        )
      : [],
  );

it("delivers every signal to each receiver that this machine has", async () => {
  const otelcol = peerPath("otelcol");
  const isBuilt = existsSync(otelcol);
  console.info(`receivers of this run: ours${isBuilt ? `, ${otelcol}` : ""}`);
  const own = { grpc: backend.grpcUrl, http: backend.httpUrl };
  const receivers = [own, ...(isBuilt ? [await startCollector(otelcol)] : [])];
  const numbers = (prefix: string) =>
    Array.from({ length: 50 }, (_, index) => `${prefix} ${index}`);
  for (const host of ["a", "b"]) {
    const rows = Array.from({ length: 25 }, (_, index) => {
      const two = (kind: string) => [0, 1].map((n) => `${host} ${kind} ${2 * index + n}`);
      return [
        { kind: "otel_span", payload: spans(...two("span")) },
        { kind: "otel_log", payload: logs(...two("log")) },
        { kind: "otel_metric", payload: metrics(...two("metric")) },
        ...two("line").map((line) => ({ payload: new TextEncoder().encode(line) })),
      ];
    });
    await store.envelopes(host, rows.flat());
  }
  const exports = receivers.flatMap(({ grpc, http }) => [
    { SVC_EXPORT_ENDPOINT: grpc, SVC_EXPORT_PROTOCOL: "grpc" },
    { SVC_EXPORT_ENDPOINT: http },
  ]);
  exports.forEach((env, index) => {
    const name = { SVC_DATABASE_URL: database.url, SVC_EXPORT_NAME: `e${index}` };
    programs.push(startProgram("functions/main.ts", ["export"], { ...name, ...env }));
  });
  const times = (names: readonly string[]) =>
    names.flatMap((name) => exports.map(() => name)).toSorted();
  const of = (...kinds: string[]) =>
    ["a", "b"].flatMap((host) => kinds.flatMap((kind) => numbers(`${host} ${kind}`)));
  const within = { timeout: 60_000, interval: 20 };
  await expect.poll(() => backend.spanNames().toSorted(), within).toEqual(times(of("span")));
  await expect.poll(() => backend.lines().toSorted(), within).toEqual(times(of("log", "line")));
  await expect.poll(() => metricNames().toSorted(), within).toEqual(times(of("metric")));
  const failed = await store.client.query("select 1 from export_dead_letter");
  expect(failed.rowCount).toBe(0);
});
