import { deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import { fromBinary } from "@bufbuild/protobuf";
import { afterEach, expect, it } from "vitest";
import { StatusSchema } from "#proto/gen/google/rpc/status_pb.js";
import { ExportLogsServiceRequestSchema } from "#proto/gen/opentelemetry/proto/collector/logs/v1/logs_service_pb.js";
import { ExportMetricsServiceRequestSchema } from "#proto/gen/opentelemetry/proto/collector/metrics/v1/metrics_service_pb.js";
import { ExportTraceServiceResponseSchema } from "#proto/gen/opentelemetry/proto/collector/trace/v1/trace_service_pb.js";
import {
  spansOf,
  startTestOtlp,
  type TestOtlp,
  traceRequest,
} from "#tests/collector/support/otlp.ts";
import { closeAccounts, refusalsOf } from "#tests/collector/support/queue-accounts.ts";
import { cpuMillisecondsOf } from "#tests/support/cpu-time.ts";

let otlp: TestOtlp;

const start = async (...options: Parameters<typeof startTestOtlp>) => {
  otlp = await startTestOtlp(...options);
};

afterEach(() => otlp.close());

it("answers protobuf with protobuf", async () => {
  await start();
  const response = await otlp.post("/v1/traces", traceRequest(["a"]));
  expect([response.status, response.headers.get("content-type")]).toEqual([
    200,
    "application/x-protobuf",
  ]);
  expect(
    fromBinary(ExportTraceServiceResponseSchema, await response.bytes()).partialSuccess,
  ).toBeUndefined();
  expect(otlp.envelopes()[0]?.payload).toEqual(traceRequest(["a"]));
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
  const response = await otlp.post("/v1/traces", new Uint8Array(gzipSync(body)), {
    "content-type": "application/json; charset=utf-8",
    "content-encoding": "gzip",
  });
  expect([response.status, response.headers.get("content-type"), await response.json()]).toEqual([
    200,
    "application/json",
    {},
  ]);
  const [stored] = spansOf(otlp.envelopes()[0]?.payload ?? new Uint8Array());
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
  ["zstd", zstdCompressSync],
  ["deflate", deflateSync],
  ["gzip, zstd", (bytes: Uint8Array) => zstdCompressSync(gzipSync(bytes))],
])("stores a request with the content encoding %s", async (encoding, compress) => {
  await start();
  const body = Uint8Array.from(compress(traceRequest(["a"])));
  const response = await otlp.post("/v1/traces", body, { "content-encoding": encoding });
  expect(response.status).toBe(200);
  otlp.expectSpans("a");
});

it("names the content encodings that it reads when it rejects one", async () => {
  await start();
  const response = await otlp.post("/v1/traces", "x", { "content-encoding": "gzip, br" });
  expect([response.status, response.headers.get("accept-encoding")]).toEqual([
    415,
    "gzip, zstd, deflate, zlib, snappy, x-snappy-framed",
  ]);
});

const json = { "content-type": "application/json" };
const postSpans = (spans: readonly object[]) =>
  otlp.post("/v1/traces", JSON.stringify({ resourceSpans: [{ scopeSpans: [{ spans }] }] }), json);

it("reads the short names of enum values, in any case, and those of protobuf", async () => {
  await start();
  const codes = ["ERROR", "Ok", "unset", "STATUS_CODE_ERROR", 2, null];
  const kinds = ["SERVER", "client", "Internal", "SPAN_KIND_PRODUCER", 5, null];
  const spans = codes.map((code, index) => ({ kind: kinds[index], status: { code } }));
  expect(await (await postSpans(spans)).json()).toEqual({});
  const stored = spansOf(otlp.envelopes()[0]?.payload ?? expect.fail("nothing stored"));
  expect(stored.map(({ status }) => status?.code)).toEqual([2, 1, 0, 2, 2, 0]);
  expect(stored.map(({ kind }) => kind)).toEqual([2, 3, 1, 4, 5, 0]);
  const logRecords = ["INFO", "warn", "Fatal4", "SEVERITY_NUMBER_DEBUG"].map((severity_number) => ({
    severity_number,
  }));
  const logs = { resource_logs: [{ scope_logs: [{ log_records: logRecords }] }] };
  await otlp.post("/v1/logs", JSON.stringify(logs), json);
  const metrics = ["DELTA", "cumulative"].map((aggregationTemporality) => ({
    sum: { aggregationTemporality, dataPoints: [{}] },
  }));
  const points = { resourceMetrics: [{ scopeMetrics: [{ metrics }] }] };
  await otlp.post("/v1/metrics", JSON.stringify(points), json);
  const [, storedLogs, storedMetrics] = otlp.envelopes().map(({ payload }) => payload);
  expect(
    fromBinary(ExportLogsServiceRequestSchema, storedLogs ?? expect.fail("no logs"))
      .resourceLogs.flatMap(({ scopeLogs }) => scopeLogs)
      .flatMap((scope) => scope.logRecords.map(({ severityNumber }) => severityNumber)),
  ).toEqual([9, 13, 24, 5]);
  expect(
    fromBinary(ExportMetricsServiceRequestSchema, storedMetrics ?? expect.fail("no metrics"))
      .resourceMetrics.flatMap(({ scopeMetrics }) => scopeMetrics)
      .flatMap((scope) => scope.metrics.map(({ data }) => data.value)),
  ).toMatchObject([{ aggregationTemporality: 1 }, { aggregationTemporality: 2 }]);
});

it("leaves out items with an unknown enum value, counts them, and says where the first is", async () => {
  await start();
  const ids = ["a", "b", "c", "d"];
  const codes = ["OK", "secret", 1.5, "ERROR"];
  const spans = ids.map((name, index) => ({ name, status: { code: codes[index] } }));
  expect(await (await postSpans(spans)).json()).toEqual({
    partialSuccess: {
      rejectedSpans: "2",
      errorMessage:
        "left out items, the first because resourceSpans[0].scopeSpans[0].spans[1].status.code is not a value of StatusCode",
    },
  });
  otlp.expectSpans("a", "d");
  const histogram = { aggregationTemporality: "sometimes", data_points: [{}, {}, {}] };
  const body = { resourceMetrics: [{ scopeMetrics: [{ metrics: [{ histogram }] }] }] };
  const response = await otlp.post("/v1/metrics", JSON.stringify(body), json);
  expect((await response.json()).partialSuccess).toMatchObject({ rejectedDataPoints: "3" });
  expect(otlp.envelopes()).toHaveLength(1);
  expect(otlp.source.counters?.()).toMatchObject({ partial: 2, rejected_items: 5, invalid: 0 });
  expect(refusalsOf(closeAccounts(otlp.queue))).toEqual([
    [3, "otel_span", "otlp", 2],
    [3, "otel_metric", "otlp", 3],
  ]);
});

it("ignores an unknown member that is called like an enum", async () => {
  await start();
  await postSpans([{ name: "a", unheardOf: { kind: "podman", status: { code: "?" } } }]);
  otlp.expectSpans("a");
});

it("leaves out a span whose JSON nests too deeply, alone, and says so", async () => {
  await start();
  let value: object = { stringValue: "x" };
  for (let depth = 0; depth < 5_000; depth++) value = { arrayValue: { values: [value] } };
  const attributes = [{ key: "deep", value }];
  const response = await postSpans([{ name: "a" }, { name: "b", attributes }, { name: "c" }]);
  expect((await response.json()).partialSuccess).toEqual({
    rejectedSpans: "1",
    errorMessage: expect.stringContaining(
      "because resourceSpans[0].scopeSpans[0].spans[1] nests deeper than 100",
    ),
  });
  otlp.expectSpans("a", "c");
});

it("replaces half of a surrogate pair by U+FFFD, warns the sender and counts it", async () => {
  await start();
  const body = JSON.stringify({
    resourceSpans: [
      {
        resource: { attributes: [{ key: "k", value: { stringValue: "\udc00" } }] },
        scopeSpans: [{ spans: [{ name: "a\ud800b" }, { name: "\u{1f600}" }] }],
      },
    ],
  });
  const response = await otlp.post("/v1/traces", body, json);
  expect(await response.json()).toEqual({
    partialSuccess: { errorMessage: "replaced invalid UTF-8 in 2 strings" },
  });
  otlp.expectSpans("a\ufffdb", "\u{1f600}");
  expect(otlp.source.counters?.()).toMatchObject({ partial: 1, repaired_strings: 2 });
});

it("rejects JSON that is not UTF-8, and stores nothing of it", async () => {
  await start();
  const span = (name: string) =>
    `{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":"${name}"}]}]}]}`;
  expect((await otlp.post("/v1/traces", Buffer.from(span("a\xe9"), "latin1"), json)).status).toBe(
    400,
  );
  expect((await otlp.post("/v1/traces", span("fine"), json)).status).toBe(200);
  otlp.expectSpans("fine");
});

it("allows POST alone", async () => {
  await start();
  const response = await otlp.post("/v1/traces", "{secret", {}, "GET");
  expect([response.status, response.headers.get("allow")]).toEqual([405, "POST"]);
});

it("G1: rejects a gzip bomb and an oversized body with 413", async () => {
  await start({ limits: { bodyBytesMax: 100_000 } });
  const bomb = gzipSync(Buffer.alloc(50_000_000));
  expect(bomb.length).toBeLessThan(100_000);
  expect((await otlp.post("/v1/traces", bomb, { "content-encoding": "gzip" })).status).toBe(413);
  expect((await otlp.post("/v1/logs", new Uint8Array(100_001))).status).toBe(413);
  expect(otlp.envelopes()).toEqual([]);
});

it("rejects deeply nested JSON, and ids that are not hex", async () => {
  await start();
  const deep = `{"resourceSpans":${"[".repeat(100_000)}${"]".repeat(100_000)}}`;
  expect((await otlp.post("/v1/traces", deep, json)).status).toBe(400);
  const bad = JSON.stringify({
    resourceSpans: [{ scopeSpans: [{ spans: [{ traceId: "xyz" }] }] }],
  });
  expect((await otlp.post("/v1/traces", bad, json)).status).toBe(400);
});

it("O3: refuses JSON and messages of millions of values before it parses them, and stores that of 10,000 spans", async () => {
  await start();
  const within = [
    '{"resourceSpans":[',
    '{"resourceSpans":[{"scopeSpans":[{"spans":[',
    '{"resourceSpans":[{"resource":{"x":[',
  ];
  for (const before of [...within, "["])
    for (const unit of ["{},", '{"kind":1},']) {
      const body = before + unit.repeat(4_000_000 / unit.length);
      const post = async () => expect((await otlp.post("/v1/traces", body, json)).status).toBe(413);
      // Parsed, they take seconds.
      expect([before, (await cpuMillisecondsOf(400, post)) < 400]).toEqual([before, true]);
    }
  const tooLong = await otlp.post("/v1/traces", `{"x":"${"x".repeat(8_400_000)}"}`, json);
  expect([tooLong.status, await tooLong.text()]).toEqual([
    413,
    expect.stringMatching(/bytes: send fewer items at once/),
  ]);
  const messages = Buffer.alloc(300_000, Uint8Array.of(0x0a, 0));
  expect((await otlp.post("/v1/traces", messages)).status).toBe(413);
  const attributes = Array.from({ length: 4 }, (_, index) => ({
    key: `k${index}`,
    value: { stringValue: "v" },
  }));
  const spans = Array.from({ length: 10_000 }, (_, index) => ({
    name: `n${index}`,
    kind: 2,
    attributes,
    status: {},
  }));
  expect(
    (
      await otlp.post(
        "/v1/traces",
        JSON.stringify({ resource_spans: [{ scopeSpans: [{ spans }] }] }),
        json,
      )
    ).status,
  ).toBe(200);
  otlp.expectSpans(...spans.map(({ name }) => name));
  expect(otlp.source.counters?.()).toMatchObject({ stored: 1, invalid: 0 });
});

it("answers 503 with Retry-After when the queue stays full", async () => {
  await start({ queue: { maxDiskUsageBytes: 3_000 }, limits: { roomTimeoutMs: 20 } });
  expect((await otlp.post("/v1/traces", traceRequest(["a".repeat(2000)]))).status).toBe(200);
  const refusal = await otlp.post("/v1/traces", traceRequest(["b".repeat(2000)]));
  expect([refusal.status, refusal.headers.get("retry-after")]).toEqual([503, "1"]);
  expect(fromBinary(StatusSchema, await refusal.bytes()).code).toBe(14);
});

it("reports how many items it rejected when the queue drops the newest", async () => {
  await start({ queue: { maxDiskUsageBytes: 3_000, dropNewestOnFull: true } });
  await otlp.post("/v1/traces", traceRequest(["a".repeat(2000)]));
  const response = await otlp.post("/v1/traces", traceRequest(["b", "c", "d".repeat(2000)]));
  const { partialSuccess } = fromBinary(ExportTraceServiceResponseSchema, await response.bytes());
  expect([response.status, partialSuccess?.rejectedSpans]).toEqual([200, 3n]);
  expect(otlp.queue.stats().droppedRecordsTotal).toBe(1);
});
