import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { credentials, Metadata, makeClientConstructor, type ServiceError } from "@grpc/grpc-js";
import { SpanKind, SpanStatusCode } from "@opentelemetry/api";
import { OTLPTraceExporter as GrpcExporter } from "@opentelemetry/exporter-trace-otlp-grpc";
import { OTLPTraceExporter as HttpExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { BatchSpanProcessor, type SpanExporter, TracerProvider } from "@opentelemetry/sdk-trace";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { systemClock } from "../../../functions/kit/clock.ts";
import { RetryInfoSchema } from "../../../proto/gen/google/rpc/error_details_pb.js";
import { StatusSchema } from "../../../proto/gen/google/rpc/status_pb.js";
import { ExportLogsServiceRequestSchema } from "../../../proto/gen/opentelemetry/proto/collector/logs/v1/logs_service_pb.js";
import { ExportMetricsServiceRequestSchema } from "../../../proto/gen/opentelemetry/proto/collector/metrics/v1/metrics_service_pb.js";
import {
  ExportTraceServiceRequestSchema,
  ExportTraceServiceResponseSchema,
} from "../../../proto/gen/opentelemetry/proto/collector/trace/v1/trace_service_pb.js";
import { createSeededEntropy } from "../../../tests/fakes/entropy.ts";
import { createTestLog } from "../../../tests/fakes/log.ts";
import { openQueue, type Queue, type QueueOptions } from "../../queue/queue.ts";
import { createOtlpSource, type OtlpSource } from "./otlp-source.ts";

let dir: string;
let queue: Queue;
let source: OtlpSource;

const start = async (
  options: Partial<QueueOptions> = {},
  limits: NonNullable<Parameters<typeof createOtlpSource>[2]> = {},
) => {
  queue = openQueue({
    dir,
    maxDiskUsageBytes: 50_000_000,
    maxRecordAgeSeconds: 604_800,
    dropNewestOnFull: false,
    atRiskBytesPercent: 80,
    atRiskOldestSeconds: 86_400,
    clock: systemClock,
    entropy: createSeededEntropy(1),
    ...options,
  });
  source = createOtlpSource(
    { grpc: { listen: "127.0.0.1:0" }, http: { listen: "127.0.0.1:0" } },
    { append: queue.append, clock: systemClock, log: createTestLog() },
    limits,
  );
  await source.start();
};

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "otlp-"));
});

afterEach(async () => {
  await source.stop();
  await queue.close();
  rmSync(dir, { recursive: true });
});

const envelopes = () => queue.read(0, { maxRecords: 1e6, maxBytes: 1e12 });
const spansOf = (payload: Uint8Array) =>
  fromBinary(ExportTraceServiceRequestSchema, payload).resourceSpans.flatMap(({ scopeSpans }) =>
    scopeSpans.flatMap(({ spans }) => spans),
  );

const traceRequest = (names: readonly string[]) =>
  toBinary(
    ExportTraceServiceRequestSchema,
    create(ExportTraceServiceRequestSchema, {
      resourceSpans: [
        {
          resource: { attributes: [{ key: "service.name", value: { value: { case: "stringValue", value: "shop" } } }] },
          scopeSpans: [
            { scope: { name: "scope" }, spans: names.map((name) => ({ name, traceId: new Uint8Array(16) })) },
          ],
          schemaUrl: "https://schema.test",
        },
      ],
    }),
  );

const post = (
  path: string,
  body: string | Uint8Array<ArrayBuffer>,
  headers: Record<string, string> = {},
  method = "POST",
) =>
  fetch(`http://${source.addresses.http}${path}`, {
    method,
    headers: { "content-type": "application/x-protobuf", ...headers },
    ...(method === "GET" ? {} : { body }),
  });

/** A gRPC client that knows nothing of this code: bytes in, bytes out. */
const exportByGrpc = (payload: Uint8Array, service = "trace.v1.TraceService"): Promise<Uint8Array> => {
  const path = `/opentelemetry.proto.collector.${service}/Export`;
  const bytes = (value: Uint8Array) => Buffer.from(value);
  const Client = makeClientConstructor(
    {
      export: {
        path,
        requestStream: false,
        responseStream: false,
        requestSerialize: bytes,
        requestDeserialize: bytes,
        responseSerialize: bytes,
        responseDeserialize: bytes,
      },
    },
    "Export",
  );
  const client = new Client(source.addresses.grpc ?? "", credentials.createInsecure());
  return new Promise<Uint8Array>((resolve, reject) => {
    client.makeUnaryRequest(path, bytes, bytes, payload, new Metadata(), {}, (error, value) =>
      error === null ? resolve(value ?? new Uint8Array()) : reject(error),
    );
  }).finally(() => client.close());
};

const sendSpans = async (exporter: SpanExporter, count: number) => {
  const provider = new TracerProvider({
    resource: resourceFromAttributes({ "service.name": "shop" }),
    spanProcessors: [new BatchSpanProcessor({ exporter, maxExportBatchSize: 100, maxQueueSize: 10_000 })],
  });
  const tracer = provider.getTracer("tests", "1.2.3");
  for (let index = 0; index < count; index++) {
    const span = tracer.startSpan(`span ${index}`, {
      kind: SpanKind.CLIENT,
      attributes: { index, ratio: 0.5, ok: true },
    });
    span.addEvent("event", { list: ["a", "b"] });
    span.setStatus({ code: SpanStatusCode.ERROR, message: "no" });
    span.end();
  }
  await provider.forceFlush();
  await provider.shutdown();
};

describe("the OpenTelemetry SDK's own exporters", () => {
  it.each([
    ["grpc", () => new GrpcExporter({ url: `http://${source.addresses.grpc}` })],
    [
      "http/protobuf with gzip",
      () => new HttpExporter({ url: `http://${source.addresses.http}/v1/traces`, compression: "gzip" as never }),
    ],
  ])("over %s: every span is in the queue once the exporter is told that it succeeded", async (_, exporter) => {
    await start();
    await sendSpans(exporter(), 250);
    expect(envelopes().map(({ kind, source: name }) => [kind, name])).toEqual(Array(3).fill(["otel_span", "otlp"]));
    const spans = envelopes().flatMap(({ payload }) => spansOf(payload));
    expect(new Set(spans.map(({ name }) => name)).size).toBe(250);
    const [first] = spans;
    expect(first).toMatchObject({
      name: "span 0",
      kind: 3,
      status: { code: 2, message: "no" },
      attributes: [
        { key: "index", value: { value: { case: "intValue", value: 0n } } },
        { key: "ratio", value: { value: { case: "doubleValue", value: 0.5 } } },
        { key: "ok", value: { value: { case: "boolValue", value: true } } },
      ],
      events: [{ name: "event", attributes: [{ key: "list" }] }],
    });
    expect([first?.traceId.length, first?.spanId.length]).toEqual([16, 8]);
  });
});

describe("gRPC", () => {
  it("passes a request on byte for byte, with fields that no schema of ours knows", async () => {
    await start();
    const unknown = Uint8Array.of(0xfa, 0x3e, 3, 1, 2, 3);
    const payload = Buffer.concat([traceRequest(["a"]), unknown]);
    expect(await exportByGrpc(payload)).toHaveLength(0);
    expect(Buffer.from(envelopes()[0]?.payload ?? [])).toEqual(payload);
  });

  it("takes logs and metrics as kinds of their own, and stores nothing for an empty request", async () => {
    await start();
    const log = toBinary(
      ExportLogsServiceRequestSchema,
      create(ExportLogsServiceRequestSchema, {
        resourceLogs: [{ scopeLogs: [{ logRecords: [{ severityText: "x" }] }] }],
      }),
    );
    await exportByGrpc(log, "logs.v1.LogsService");
    await exportByGrpc(new Uint8Array(), "metrics.v1.MetricsService");
    const metric = toBinary(
      ExportMetricsServiceRequestSchema,
      create(ExportMetricsServiceRequestSchema, {
        resourceMetrics: [{ scopeMetrics: [{ metrics: [{ name: "m" }] }] }],
      }),
    );
    await exportByGrpc(metric, "metrics.v1.MetricsService");
    expect(envelopes().map(({ kind }) => kind)).toEqual(["otel_log", "otel_metric"]);
  });

  it("G3: refuses what is not protobuf of the signal, at any depth, with a code that no SDK retries, and lives on", async () => {
    await start();
    const torn = traceRequest(["a"]).slice(0, -3);
    const nested = Buffer.concat([Uint8Array.of(0x0a, 4, 0x12, 2), Uint8Array.of(0x12, 9)]);
    for (const payload of [torn, nested, Uint8Array.of(0xff), Uint8Array.of(0x0d, 1, 2, 3, 4)])
      await expect(exportByGrpc(payload)).rejects.toMatchObject({ code: expect.toBeOneOf([3, 13]) });
    await exportByGrpc(traceRequest(["a"]));
    expect(envelopes()).toHaveLength(1);
  });

  it("G1: refuses a message over the limit with RESOURCE_EXHAUSTED", async () => {
    await start({}, { bodyBytesMax: 10_000 });
    await expect(exportByGrpc(traceRequest(["x".repeat(10_000)]))).rejects.toMatchObject({ code: 8 });
  });

  it("answers UNAVAILABLE with RetryInfo when the queue stays full, and stores nothing of it later", async () => {
    await start({ maxDiskUsageBytes: 3_000 }, { patienceMs: 20 });
    await exportByGrpc(traceRequest(["a".repeat(2000)]));
    const refusal: ServiceError = await exportByGrpc(traceRequest(["b".repeat(2000)])).catch((error) => error);
    expect(refusal.code).toBe(14);
    const [details] = refusal.metadata.get("grpc-status-details-bin");
    const status = fromBinary(StatusSchema, Buffer.from(details ?? ""));
    const [info] = status.details;
    expect(info?.typeUrl).toBe("type.googleapis.com/google.rpc.RetryInfo");
    expect(fromBinary(RetryInfoSchema, info?.value ?? new Uint8Array()).retryDelay?.seconds).toBe(1n);
    await queue.ack(1);
    await exportByGrpc(traceRequest(["c"]));
    expect(envelopes().flatMap(({ payload }) => spansOf(payload).map(({ name }) => name))).toEqual(["c"]);
  });

  it("holds a request while the queue is full, and stores it when room comes in time", async () => {
    await start({ maxDiskUsageBytes: 3_000 });
    await exportByGrpc(traceRequest(["a".repeat(2000)]));
    const held = exportByGrpc(traceRequest(["b".repeat(2000)]));
    await systemClock.sleep(20);
    expect(envelopes()).toHaveLength(1);
    await queue.ack(1);
    await held;
    expect(envelopes()).toHaveLength(1);
  });
});

describe("HTTP", () => {
  it("answers protobuf with protobuf", async () => {
    await start();
    const response = await post("/v1/traces", traceRequest(["a"]));
    expect([response.status, response.headers.get("content-type")]).toEqual([200, "application/x-protobuf"]);
    expect(fromBinary(ExportTraceServiceResponseSchema, await response.bytes()).partialSuccess).toBeUndefined();
    expect(envelopes()[0]?.payload).toEqual(traceRequest(["a"]));
  });

  it("converts JSON with ids in hex, numbers as text, enums by number, unknown members ignored", async () => {
    await start();
    const span = {
      traceId: "5b8efff798038103d269b633813fc60c",
      spanId: "EEE19B7EC3C1B174",
      parentSpanId: "",
      name: "json",
      kind: 2,
      startTimeUnixNano: "1544712660000000000",
      endTimeUnixNano: 1544712661000000000,
      attributes: [
        { key: "traceId", value: { stringValue: "not an id" } },
        { key: "n", value: { intValue: "42" } },
        { key: "b", value: { bytesValue: "AAE=" } },
      ],
      unheardOf: { traceId: { deep: true } },
    };
    const body = JSON.stringify({ resourceSpans: [{ scopeSpans: [{ spans: [span] }] }] });
    const response = await post("/v1/traces", gzipSync(body), {
      "content-type": "application/json; charset=utf-8",
      "content-encoding": "gzip",
    });
    expect([response.status, response.headers.get("content-type"), await response.json()]).toEqual([
      200,
      "application/json",
      {},
    ]);
    const [stored] = spansOf(envelopes()[0]?.payload ?? new Uint8Array());
    expect([stored?.traceId.toHex(), stored?.spanId.toHex(), stored?.parentSpanId.length]).toEqual([
      "5b8efff798038103d269b633813fc60c",
      "eee19b7ec3c1b174",
      0,
    ]);
    expect(stored).toMatchObject({
      kind: 2,
      startTimeUnixNano: 1544712660000000000n,
      attributes: [
        { value: { value: { value: "not an id" } } },
        { value: { value: { value: 42n } } },
        { value: { value: { value: Uint8Array.of(0, 1) } } },
      ],
    });
  });

  it.each([
    ["another path", "/v1/spans", {}, "POST", 404],
    ["another method", "/v1/traces", {}, "GET", 405],
    ["another content type", "/v1/traces", { "content-type": "text/plain" }, "POST", 415],
    ["another content encoding", "/v1/traces", { "content-encoding": "br" }, "POST", 415],
    ["a body that is not gzip", "/v1/traces", { "content-encoding": "gzip" }, "POST", 400],
    ["a body that is not protobuf", "/v1/traces", {}, "POST", 400],
    ["a body that is not JSON", "/v1/traces", { "content-type": "application/json" }, "POST", 400],
  ])("refuses %s", async (_, path, headers, method, status) => {
    await start();
    const response = await post(path, "{secret", headers, method);
    expect(response.status).toBe(status);
    const json = response.headers.get("content-type") === "application/json";
    const body = json ? await response.json() : fromBinary(StatusSchema, await response.bytes());
    expect(body.message).toMatch(/^[a-z].{5,}/);
    expect(JSON.stringify(body.message)).not.toContain("secret");
    expect((await post("/v1/traces", traceRequest(["a"]))).status).toBe(200);
  });

  it("G1: stops a gzip bomb and an oversized body with 413", async () => {
    await start({}, { bodyBytesMax: 100_000 });
    const bomb = gzipSync(Buffer.alloc(50_000_000));
    expect(bomb.length).toBeLessThan(100_000);
    expect((await post("/v1/traces", bomb, { "content-encoding": "gzip" })).status).toBe(413);
    expect((await post("/v1/logs", new Uint8Array(100_001))).status).toBe(413);
    expect(envelopes()).toEqual([]);
  });

  it("refuses JSON nested without end, and ids that are not hex", async () => {
    await start();
    const json = { "content-type": "application/json" };
    const deep = `{"resourceSpans":${"[".repeat(100_000)}${"]".repeat(100_000)}}`;
    expect((await post("/v1/traces", deep, json)).status).toBe(400);
    const bad = JSON.stringify({ resourceSpans: [{ scopeSpans: [{ spans: [{ traceId: "xyz" }] }] }] });
    expect((await post("/v1/traces", bad, json)).status).toBe(400);
  });

  it("answers 503 with Retry-After when the queue stays full", async () => {
    await start({ maxDiskUsageBytes: 3_000 }, { patienceMs: 20 });
    expect((await post("/v1/traces", traceRequest(["a".repeat(2000)]))).status).toBe(200);
    const refusal = await post("/v1/traces", traceRequest(["b".repeat(2000)]));
    expect([refusal.status, refusal.headers.get("retry-after")]).toEqual([503, "1"]);
    expect(fromBinary(StatusSchema, await refusal.bytes()).code).toBe(14);
  });

  it("says how much it rejected when the queue drops the newest", async () => {
    await start({ maxDiskUsageBytes: 3_000, dropNewestOnFull: true });
    await post("/v1/traces", traceRequest(["a".repeat(2000)]));
    const response = await post("/v1/traces", traceRequest(["b", "c", "d".repeat(2000)]));
    const { partialSuccess } = fromBinary(ExportTraceServiceResponseSchema, await response.bytes());
    expect([response.status, partialSuccess?.rejectedSpans]).toEqual([200, 3n]);
    expect(queue.stats().droppedRecordsTotal).toBe(1);
  });
});

it("cuts a large request into envelopes that together hold every span once, with its resource and scope", async () => {
  await start({}, { envelopeBytesMax: 2_000 });
  const names = Array.from({ length: 200 }, (_, index) => `${index}-${"x".repeat((index * 37) % 300)}`);
  names[77] = "y".repeat(5_000);
  await exportByGrpc(traceRequest(names));
  const parts = envelopes();
  expect(parts.flatMap(({ payload }) => spansOf(payload).map(({ name }) => name))).toEqual(names);
  for (const { payload } of parts) {
    expect(payload.length <= 2_000 || spansOf(payload).length === 1).toBe(true);
    const [resource] = fromBinary(ExportTraceServiceRequestSchema, payload).resourceSpans;
    expect([resource?.resource?.attributes[0]?.key, resource?.scopeSpans[0]?.scope?.name, resource?.schemaUrl]).toEqual(
      ["service.name", "scope", "https://schema.test"],
    );
  }
  expect(parts.length).toBeLessThan(40);
});

it("refuses to start on an address in use, and leaves nothing behind", async () => {
  await start();
  const second = createOtlpSource(
    { grpc: { listen: "127.0.0.1:0" }, http: { listen: source.addresses.http ?? "" } },
    { append: queue.append, clock: systemClock, log: createTestLog() },
  );
  await expect(second.start()).rejects.toMatchObject({ code: "EADDRINUSE" });
});

it("stops while a request waits: it is refused, so that its sender tries again elsewhere or later", async () => {
  await start({ maxDiskUsageBytes: 3_000 });
  await exportByGrpc(traceRequest(["a".repeat(2000)]));
  const held = exportByGrpc(traceRequest(["b".repeat(2000)])).catch((error) => error.code);
  await vi.waitFor(() => expect(queue.stats().records).toBe(1));
  await systemClock.sleep(20);
  await source.stop();
  expect(await held).toBe(14);
});
