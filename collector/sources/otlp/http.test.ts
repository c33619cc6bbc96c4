import { gzipSync } from "node:zlib";
import { fromBinary } from "@bufbuild/protobuf";
import { afterEach, expect, it } from "vitest";
import { StatusSchema } from "#proto/gen/google/rpc/status_pb.js";
import { ExportTraceServiceResponseSchema } from "#proto/gen/opentelemetry/proto/collector/trace/v1/trace_service_pb.js";
import { cpuMillisecondsOf } from "#tests/support/cpu-time.ts";
import { spansOf, startTestOtlp, type TestOtlp, traceRequest } from "#tests/support/otlp.ts";

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

it("rejects JSON that is not UTF-8, or with half of a surrogate pair, and stores nothing of it", async () => {
  await start();
  const span = (name: string) =>
    `{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":"${name}"}]}]}]}`;
  const json = { "content-type": "application/json" };
  expect((await otlp.post("/v1/traces", span("a\\ud800b"), json)).status).toBe(400);
  expect((await otlp.post("/v1/traces", Buffer.from(span("a\xe9"), "latin1"), json)).status).toBe(
    400,
  );
  expect((await otlp.post("/v1/traces", span("fine"), json)).status).toBe(200);
  expect(otlp.spanNames()).toEqual(["fine"]);
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
  const json = { "content-type": "application/json" };
  const deep = `{"resourceSpans":${"[".repeat(100_000)}${"]".repeat(100_000)}}`;
  expect((await otlp.post("/v1/traces", deep, json)).status).toBe(400);
  const bad = JSON.stringify({
    resourceSpans: [{ scopeSpans: [{ spans: [{ traceId: "xyz" }] }] }],
  });
  expect((await otlp.post("/v1/traces", bad, json)).status).toBe(400);
});

it("O3: refuses JSON and messages of millions of values before it parses them, and stores that of 10,000 spans", async () => {
  await start();
  const json = { "content-type": "application/json" };
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
  expect(otlp.spanNames()).toEqual(spans.map(({ name }) => name));
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
