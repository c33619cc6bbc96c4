import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { BinaryWriter } from "@bufbuild/protobuf/wire";
import fc from "fast-check";
import { afterEach, expect, it } from "vitest";
import { RetryInfoSchema } from "#proto/gen/google/rpc/error_details_pb.js";
import { StatusSchema } from "#proto/gen/google/rpc/status_pb.js";
import { ExportLogsServiceRequestSchema } from "#proto/gen/opentelemetry/proto/collector/logs/v1/logs_service_pb.js";
import { ExportMetricsServiceRequestSchema } from "#proto/gen/opentelemetry/proto/collector/metrics/v1/metrics_service_pb.js";
import { ExportTraceServiceResponseSchema } from "#proto/gen/opentelemetry/proto/collector/trace/v1/trace_service_pb.js";
import {
  exportByGrpc,
  startTestOtlp,
  type TestOtlp,
  traceRequest,
} from "#tests/collector/support/otlp.ts";
import { cpuMillisecondsOf } from "#tests/support/cpu-time.ts";
import { readAll } from "#tests/support/queue.ts";

const varintOf = (value: number) => [...new BinaryWriter().uint32(value).finish()];

let otlp: TestOtlp;

const start = async (...options: Parameters<typeof startTestOtlp>) => {
  otlp = await startTestOtlp(...options);
};

afterEach(() => otlp.close());

it("stores a request byte for byte, with fields that its schema does not have", async () => {
  await start();
  const unknown = Uint8Array.of(0xfa, 0x3e, 3, 1, 2, 3);
  const payload = Buffer.concat([traceRequest(["a"]), unknown]);
  expect(await otlp.exportByGrpc(payload)).toHaveLength(0);
  expect(Buffer.from(otlp.envelopes()[0]?.payload ?? [])).toEqual(payload);
});

it("stores what a client of gRPC compresses with deflate", async () => {
  await start();
  const options = { "grpc.default_compression_algorithm": 1 };
  await exportByGrpc(otlp.source.addresses.grpc ?? "", traceRequest(["a"]), options);
  otlp.expectSpans("a");
});

it("leaves out a span that nests too deeply, alone, and says so", async () => {
  await start();
  const { payload, nested } = deepRequest();
  const { partialSuccess } = fromBinary(
    ExportTraceServiceResponseSchema,
    await otlp.exportByGrpc(payload),
  );
  expect(partialSuccess).toMatchObject({
    rejectedSpans: 1n,
    errorMessage: "left out 1 items that nest too deeply",
  });
  otlp.expectSpans("before", "after");
  expect(otlp.source.counters?.()).toMatchObject({ partial: 1, rejected_items: 1 });
  const alone = await otlp.exportByGrpc(inScope(nested));
  expect(fromBinary(ExportTraceServiceResponseSchema, alone).partialSuccess?.rejectedSpans).toBe(
    1n,
  );
  expect(otlp.envelopes()).toHaveLength(1);
});

it("O3: leaves out deep spans of a large request in 800 ms", async () => {
  await start();
  const { nested } = deepRequest();
  const spans = Buffer.concat(Array(9_000).fill(nested));
  const exported = () => otlp.exportByGrpc(inScope(spans));
  expect(await cpuMillisecondsOf(800, exported)).toBeLessThan(800);
  expect(otlp.envelopes()).toEqual([]);
});

const wrapped = (tag: number, body: Uint8Array): Uint8Array =>
  new BinaryWriter().uint32(tag).bytes(body).finish();
/** A request of these spans. */
const inScope = (spans: Uint8Array) => wrapped(0x0a, wrapped(0x12, spans));

/** A request of three spans, of which the second nests too deeply, and that one. */
const deepRequest = () => {
  let nested: Uint8Array = new Uint8Array();
  // AnyValue.array_value → ArrayValue.values, again and again, as the value of an attribute of a span.
  for (let depth = 0; depth < 60; depth++) nested = wrapped(0x2a, wrapped(0x0a, nested));
  nested = wrapped(0x12, wrapped(0x4a, wrapped(0x12, nested)));
  const named = (name: string) => wrapped(0x12, wrapped(0x2a, Buffer.from(name)));
  return {
    nested,
    payload: inScope(Buffer.concat([named("before"), nested, named("after")])),
  };
};

it("stores any sequence of fields unchanged, also with tags longer than necessary", async () => {
  await start();
  const field = fc.tuple(
    fc.integer({ min: 8, max: 2 ** 29 - 1 }),
    fc.uint8Array({ maxLength: 200 }),
    fc.boolean(),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(field, { minLength: 1, maxLength: 5 }), async (fields) => {
      const before = otlp.queue.lastSequence;
      const payload = Buffer.concat(
        fields.flatMap(([number, body, long]) => {
          const tag = varintOf(((number << 3) | 2) >>> 0);
          // The same number with a continuation byte too many.
          if (long && tag.length < 5) tag.push((tag.pop() ?? 0) | 0x80, 0);
          return [Uint8Array.from([...tag, ...varintOf(body.length)]), body];
        }),
      );
      await otlp.exportByGrpc(payload);
      const [record] = readAll(otlp.queue, before);
      expect(Buffer.from(record?.payload ?? [])).toEqual(payload);
    }),
    { numRuns: 40 },
  );
});

it("stores logs and metrics under their own kinds, and nothing for an empty request", async () => {
  await start();
  const log = toBinary(
    ExportLogsServiceRequestSchema,
    create(ExportLogsServiceRequestSchema, {
      resourceLogs: [{ scopeLogs: [{ logRecords: [{ severityText: "x" }] }] }],
    }),
  );
  await otlp.exportByGrpc(log, "logs.v1.LogsService");
  await otlp.exportByGrpc(new Uint8Array(), "metrics.v1.MetricsService");
  const metric = toBinary(
    ExportMetricsServiceRequestSchema,
    create(ExportMetricsServiceRequestSchema, {
      resourceMetrics: [{ scopeMetrics: [{ metrics: [{ name: "m" }] }] }],
    }),
  );
  await otlp.exportByGrpc(metric, "metrics.v1.MetricsService");
  expect(otlp.envelopes().map(({ kind }) => kind)).toEqual(["otel_log", "otel_metric"]);
});

it("G3: rejects a request that is not protobuf of its signal, at any depth, with a code that no SDK retries", async () => {
  await start();
  const torn = traceRequest(["a"]).slice(0, -3);
  const nested = Buffer.concat([Uint8Array.of(0x0a, 4, 0x12, 2), Uint8Array.of(0x12, 9)]);
  for (const payload of [torn, nested, Uint8Array.of(0xff), Uint8Array.of(0x0d, 1, 2, 3, 4)])
    await expect(otlp.exportByGrpc(payload)).rejects.toMatchObject({ code: 3 });
  await otlp.exportByGrpc(traceRequest(["a"]));
  expect(otlp.envelopes()).toHaveLength(1);
});

it("G1: rejects a message over the limit with RESOURCE_EXHAUSTED", async () => {
  await start({ limits: { bodyBytesMax: 10_000 } });
  await expect(otlp.exportByGrpc(traceRequest(["x".repeat(10_000)]))).rejects.toMatchObject({
    code: 8,
  });
});

it("answers UNAVAILABLE with RetryInfo when the queue stays full, and stores nothing of the request later", async () => {
  await start({ queue: { maxDiskUsageBytes: 3_000 }, limits: { roomTimeoutMs: 20 } });
  await otlp.exportByGrpc(traceRequest(["a".repeat(2000)]));
  const refusal = await otlp.exportByGrpc(traceRequest(["b".repeat(2000)])).catch((error) => error);
  expect(refusal.code).toBe(14);
  const [details] = refusal.metadata.get("grpc-status-details-bin");
  const status = fromBinary(StatusSchema, Buffer.from(details ?? ""));
  const [info] = status.details;
  expect(info?.typeUrl).toBe("type.googleapis.com/google.rpc.RetryInfo");
  expect(fromBinary(RetryInfoSchema, info?.value ?? new Uint8Array()).retryDelay?.seconds).toBe(1n);
  await otlp.queue.ack(1);
  await otlp.exportByGrpc(traceRequest(["c"]));
  otlp.expectSpans("c");
});
