import { create, type DescMessage, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { ExportLogsServiceRequestSchema } from "../gen/opentelemetry/proto/collector/logs/v1/logs_service_pb.js";
import { ExportMetricsServiceRequestSchema } from "../gen/opentelemetry/proto/collector/metrics/v1/metrics_service_pb.js";
import { ExportTraceServiceRequestSchema } from "../gen/opentelemetry/proto/collector/trace/v1/trace_service_pb.js";
import { ResourceSchema } from "../gen/opentelemetry/proto/resource/v1/resource_pb.js";
import { recordTexts, type TextEnvelope } from "./record-texts.ts";

const at = 1_795_000_000_000_000n;
const envelope = (kind: string, payload: Uint8Array, attributes: Record<string, string> = {}) => ({
  kind,
  payload,
  attributes,
  source: "app",
  observedAt: null,
  receivedAt: at,
});
const encode = <Schema extends DescMessage>(schema: Schema, init: MessageInitShape<Schema>) =>
  toBinary(schema, create(schema, init));
const anyValue = <Case extends string, Value>(kind: Case, value: Value) => ({
  value: { case: kind, value },
});
const text = (value: string) => anyValue("stringValue", value);
const linesOf = (of: TextEnvelope, grep?: string) =>
  [...recordTexts(of, grep)].filter((line) => typeof line === "string");
const time = "2026-11-18T11:06:40.000Z";
const bytes = (value: string) => new TextEncoder().encode(value);
/** A field of one length-delimited value. */
const field = (tag: number, value: Uint8Array) => {
  const head = [tag];
  let length = value.length;
  for (; length > 127; length >>>= 7) head.push((length & 127) | 128);
  return Buffer.concat([Uint8Array.from([...head, length]), value]);
};

it("writes lines of files with their path, and bytes that are no text as such", () => {
  expect(
    linesOf(envelope("log_line", bytes("a line"), { "file.path": "/var/log/a", k: "v w" })),
  ).toEqual([`${time} log_line /var/log/a k="v w": a line`]);
  expect(linesOf(envelope("other", Uint8Array.of(0xff)))).toEqual([
    `${time} other: (1 bytes that are no text)`,
  ]);
  expect(linesOf({ ...envelope("x", bytes("")), observedAt: at - 1_000_000n })[0]).toMatch(
    /^2026-11-18T11:06:39/,
  );
});

it("writes log records with severity, body and attributes of every type", () => {
  const payload = encode(ExportLogsServiceRequestSchema, {
    resourceLogs: [
      {
        resource: { attributes: [{ key: "service.name", value: text("shop") }] },
        scopeLogs: [
          {
            logRecords: [
              {
                timeUnixNano: at * 1000n,
                severityNumber: 17,
                body: text("it \n failed"),
                spanId: Uint8Array.of(1, 2),
                attributes: [
                  { key: "n", value: anyValue("intValue", 7n) },
                  { key: "b", value: anyValue("bytesValue", Uint8Array.of(255)) },
                  { key: "a", value: anyValue("arrayValue", { values: [text("x y"), text("z")] }) },
                  {
                    key: "m",
                    value: anyValue("kvlistValue", { values: [{ key: "k", value: text("v") }] }),
                  },
                  { key: "empty" },
                ],
              },
            ],
          },
        ],
      },
    ],
  });
  expect(linesOf(envelope("otel_log", payload))).toEqual([
    `${time} log ERROR it \n failed service=shop n=7 b=ff a="[\\"x y\\", z]" m={k=v} span=0102`,
  ]);
});

it("writes a line for each point of a metric, whatever its type", () => {
  const point = { timeUnixNano: at * 1000n, attributes: [{ key: "cpu", value: text("0") }] };
  const metric = (name: string, kind: string, values: object, unit = "") => {
    const value = { dataPoints: [{ ...point, ...values }] };
    return { name, unit, data: { case: kind, value } };
  };
  const metrics = [
    metric("g", "gauge", { value: { case: "asInt", value: 5n } }, "By"),
    metric("s", "sum", { value: { case: "asDouble", value: 0.5 } }, "1"),
    metric("h", "histogram", { count: 3n, sum: 6, min: 1, max: 3 }),
    metric("e", "exponentialHistogram", { count: 2n }),
    metric("q", "summary", { count: 1n, sum: 2, quantileValues: [{ quantile: 0.5, value: 2 }] }),
    { name: "none" },
  ];
  const payload = encode(ExportMetricsServiceRequestSchema, {
    resourceMetrics: [{ scopeMetrics: [{ metrics: metrics as never }] }],
  });
  expect(linesOf(envelope("otel_metric", payload)).map((line) => line.slice(time.length))).toEqual([
    " metric g=5 By cpu=0",
    " metric s=0.5 cpu=0",
    " metric h count=3 sum=6 min=1 max=3 cpu=0",
    " metric e count=2 cpu=0",
    " metric q count=1 sum=2 p50=2 cpu=0",
  ]);
  expect(linesOf(envelope("otel_metric", payload), "H COUNT=3")).toHaveLength(1);
});

it("decodes the first ten thousand of millions of records", () => {
  // An empty span takes two bytes: 4 MiB would be two million objects.
  const spans = new Uint8Array(4 * 1024 * 1024 - 32).map((_, index) =>
    index % 2 === 0 ? 0x12 : 0,
  );
  const lines = linesOf(envelope("otel_span", field(0x0a, field(0x12, spans))));
  expect(lines).toHaveLength(10_001);
  expect(lines.at(-1)).toBe(
    `${time} otel_span (${spans.length / 2 - 10_000} more records, which are not decoded)`,
  );
});

it("writes text in proportion to what was sent, whatever its records repeat", () => {
  const charactersOf = (kind: string, payload: Uint8Array) =>
    linesOf(envelope(kind, payload)).reduce((sum, line) => sum + line.length, 0);
  const repeated = (value: Uint8Array, bytesMax: number) =>
    Buffer.concat(Array(bytesMax / value.length).fill(value));
  const empty = Uint8Array.of(0x12, 0);
  const service = encode(ResourceSchema, {
    attributes: [{ key: "service.name", value: text("s".repeat(200_000)) }],
  });
  const spans = repeated(empty, 200_000);
  const spansOfService = field(0x0a, Buffer.concat([field(0x0a, service), field(0x12, spans)]));
  expect(charactersOf("otel_span", spansOfService)).toBeLessThan(5_000_000);
  // A gauge of points that take two bytes each.
  const points = field(0x2a, repeated(Uint8Array.of(0x0a, 0), 100_000));
  const metric = field(
    0x12,
    Buffer.concat([field(0x0a, new Uint8Array(100_000).fill(97)), points]),
  );
  const metrics = linesOf(envelope("otel_metric", field(0x0a, field(0x12, metric))));
  expect(metrics.reduce((sum, line) => sum + line.length, 0)).toBeLessThan(5_000_000);
  expect(metrics.at(-1)).toBe(
    `${time} otel_metric (more points of a metric, which are not decoded)`,
  );
  // Quotes in lists in lists.
  let nested: Uint8Array = repeated(field(0x0a, field(0x0a, bytes('"'.repeat(38)))), 84_000);
  for (let depth = 0; depth < 40; depth++) nested = field(0x0a, field(0x2a, nested));
  const log = field(0x12, field(0x2a, field(0x2a, nested)));
  const logs = field(0x0a, field(0x12, log));
  expect(linesOf(envelope("otel_log", logs))[0]).toMatch(/ log \[\[\[/);
  expect(charactersOf("otel_log", logs)).toBeLessThan(5 * logs.length);
});

it("names records that are too large, too deep or malformed, and writes the others", () => {
  const spanOf = (record: Uint8Array) => field(0x12, record);
  const named = spanOf(field(0x2a, bytes("good")));
  const large = spanOf(field(0x2a, new Uint8Array(300 * 1024).fill(97)));
  let deep: Uint8Array = new Uint8Array();
  // An array of an array of an array …
  while (deep.length < 100_000) deep = field(0x0a, field(0x2a, deep));
  const nested = spanOf(field(0x4a, field(0x12, deep)));
  const broken = spanOf(Uint8Array.of(0x2a, 0x7f));
  const payload = field(0x0a, field(0x12, Buffer.concat([large, nested, broken, named])));
  expect(linesOf(envelope("otel_span", payload))).toEqual([
    `${time} otel_span (a record of 307204 bytes, which is not decoded)`,
    expect.stringMatching(/otel_span \(a record of \d+ bytes, which cannot be decoded\)$/),
    `${time} otel_span (a record of 2 bytes, which cannot be decoded)`,
    `${time} span good`,
  ]);
  expect(linesOf(envelope("otel_span", payload.subarray(0, 40)))).toEqual([
    `${time} otel_span (a payload of 40 bytes, which is malformed)`,
  ]);
  const end = encode(ExportTraceServiceRequestSchema, {
    resourceSpans: [
      { scopeSpans: [{ spans: [{ name: "late", startTimeUnixNano: 2n ** 64n - 1n }] }] },
    ],
  });
  expect(linesOf(envelope("otel_span", end))[0]).toMatch(/^2554-.* span late$/);
});
