import { isUtf8 } from "node:buffer";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { BinaryWriter } from "@bufbuild/protobuf/wire";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ExportMetricsServiceRequestSchema as Schema } from "#proto/gen/opentelemetry/proto/collector/metrics/v1/metrics_service_pb.js";
import { createWireCheck } from "#proto/limits/wire-check.ts";
import { ProtobufError, WireLimitError } from "#proto/wire.ts";
import { cpuMillisecondsOf } from "#tests/support/cpu-time.ts";
import { runsOf } from "#tests/support/is-slow.ts";
import { splitExportRequest } from "./request-items.ts";
import { countItems, signals } from "./signals.ts";

const { check, repairText } = createWireCheck(Schema, isUtf8);
const metricsSignal =
  signals.find(({ kind }) => kind === "otel_metric") ?? expect.fail("no metrics");

const attributes = fc.array(
  fc.record({
    key: fc.string(),
    value: fc.record({
      value: fc.record({ case: fc.constant("intValue" as const), value: fc.bigInt(-5n, 5n) }),
    }),
  }),
  { maxLength: 2 },
);
const point = fc.record({ attributes, timeUnixNano: fc.bigInt(0n, 2n ** 64n - 1n) });
const metric = fc.record({
  name: fc.string({ maxLength: 60 }),
  data: fc.oneof(
    fc.record({
      case: fc.constant("gauge" as const),
      value: fc.record({ dataPoints: fc.array(point, { maxLength: 3 }) }),
    }),
    fc.record({
      case: fc.constant("histogram" as const),
      value: fc.record({
        dataPoints: fc.array(
          fc.record({
            bucketCounts: fc.array(fc.bigInt(0n, 9n)),
            explicitBounds: fc.array(fc.double()),
            sum: fc.double(),
          }),
          { maxLength: 3 },
        ),
      }),
    }),
  ),
});
const scope = fc.record({
  scope: fc.record({ name: fc.string({ maxLength: 20 }) }),
  metrics: fc.array(metric, { maxLength: 5 }),
});
const resource = fc.record({
  resource: fc.record({ attributes }),
  scopeMetrics: fc.array(scope, { maxLength: 3 }),
  schemaUrl: fc.string(),
});
const request = fc
  .array(resource, { maxLength: 3 })
  .map((resourceMetrics) => ({ resourceMetrics }))
  .map((init) => toBinary(Schema, create(Schema, init)));

const accepts = (bytes: Uint8Array): boolean => {
  try {
    check(bytes);
    return true;
  } catch (error) {
    if (error instanceof ProtobufError) return false;
    throw error;
  }
};

describe("createWireCheck", () => {
  it("accepts every well-formed request, and finds no invalid text in it", () => {
    fc.assert(fc.property(request, (bytes) => void expect(check(bytes)).toBe(0)));
  });

  it("G3: rejects packed numbers of which the last is cut off", () => {
    const within = (body: number[], tag: number) => [tag, body.length, ...body];
    // bucket_counts of a data point of a histogram of a metric of a scope of a resource.
    const counts = (bytes: number) =>
      [0x0a, 0x4a, 0x12, 0x12, 0x0a].reduce(within, within(Array(bytes).fill(0), 0x32));
    expect([16, 15, 9].map((bytes) => accepts(Uint8Array.from(counts(bytes))))).toEqual([
      true,
      false,
      false,
    ]);
  });

  it("G3: rejects what the decoder rejects, whatever byte is changed or cut off, and repairs invalid UTF-8", () => {
    const damaged = fc
      .tuple(request, fc.nat(), fc.nat(255), fc.boolean())
      .filter(([bytes]) => bytes.length > 0)
      .map(([bytes, offset, value, cut]) => {
        const at = offset % bytes.length;
        return cut ? bytes.slice(0, at) : bytes.with(at, value);
      });
    let repaired = 0;
    fc.assert(
      fc.property(damaged, (bytes) => {
        if (!accepts(bytes)) return;
        if (check(bytes) === 0) return void fromBinary(Schema, bytes);
        repaired += 1;
        expect(() => fromBinary(Schema, bytes)).toThrow();
        const mended = repairText(bytes);
        expect(check(mended)).toBe(0);
        expect(() => fromBinary(Schema, mended)).not.toThrow();
        // In the bytes, not in the message: a repaired text may occur twice in a field, of which the last one counts.
        expect(Buffer.from(mended).includes("\ufffd")).toBe(true);
      }),
      { numRuns: runsOf(2_000) },
    );
    expect(repaired).toBeGreaterThan(0);
  });

  it("repairs every string at any depth, and leaves the other bytes as they are", () => {
    fc.assert(
      fc.property(
        request,
        (bytes) =>
          void expect(fromBinary(Schema, repairText(bytes))).toEqual(fromBinary(Schema, bytes)),
      ),
    );
    // schema_url of a resource with a byte that starts no character, an unknown field, and a name that ends too early.
    const bytes = Uint8Array.from([0x0a, 6, 0x1a, 4, 0x61, 0xff, 0x62, 0xc3, 0xfa, 0x3e, 1, 0xff]);
    expect(check(bytes)).toBe(1);
    const [schemaUrl] = fromBinary(Schema, repairText(bytes)).resourceMetrics.map(
      (found) => found.schemaUrl,
    );
    expect(schemaUrl).toBe("a\ufffdb\ufffd");
    expect([...repairText(bytes)].slice(-4)).toEqual([0xfa, 0x3e, 1, 0xff]);
  });

  it("G3: rejects a tag of more than 32 bits, as the decoder does", () => {
    const long = Uint8Array.of(0xa5, 0x80, 0x82, 0x80, 0x6b, 0, 0, 0, 0);
    expect(() => fromBinary(Schema, long)).toThrow();
    expect(accepts(long)).toBe(false);
    expect(accepts(Uint8Array.of(0xfd, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0, 0))).toBe(true);
  });

  it("O3: counts values, and strings to repair, and accepts the packed numbers and unknown fields of large requests", () => {
    const refusalOf = (bytes: Uint8Array) => {
      try {
        return check(bytes);
      } catch (error) {
        return error instanceof WireLimitError ? error.message : error;
      }
    };
    const inScope = (body: Uint8Array) => wrap(0x0a, wrap(0x12, body));
    const unnamed = [0x12, 3, 0x0a, 1, 0xff];
    expect(refusalOf(repeat([0x0a, 0], 100_001))).toBe(
      "resource_metrics is over the limit of 100000 values",
    );
    expect(refusalOf(wrap(0x0a, repeat([0x12, 0], 100_001)))).toBe(
      "scope_metrics is over the limit of 100000 values",
    );
    expect(refusalOf(inScope(repeat([0x12, 0], 500_001)))).toBe(
      "metrics is over the limit of 500000 values",
    );
    expect(refusalOf(inScope(repeat(unnamed, 50_001)))).toContain(
      "50000 strings that are not UTF-8",
    );
    expect(refusalOf(inScope(repeat(unnamed, 50_000)))).toBe(50_000);
    // Field 15 is one of a newer OTLP; the buckets of an exponential histogram are numbers of a byte.
    expect(refusalOf(wrap(0x0a, repeat([0x7a, 0], 50_001)))).toContain(
      "ResourceMetrics repeats fields",
    );
    expect(refusalOf(wrap(0x0a, repeat([0x7a, 0], 50_000)))).toBe(0);
    const buckets = [0x12, 0x52, 0x0a, 0x42, 0x12].reduceRight(
      (body, tag) => wrap(tag, body),
      repeat([0], 2_000_000),
    );
    expect(refusalOf(inScope(buckets))).toBe(0);
  });

  it("rejects deep nesting instead of exhausting the stack", () => {
    let bytes: Uint8Array = new Uint8Array();
    // AnyValue.kvlist_value → KeyValueList.values → KeyValue.value, again and again.
    for (let depth = 0; depth < 60; depth++)
      for (const tag of [0x12, 0x0a, 0x32]) bytes = wrap(tag, bytes);
    expect(accepts(wrap(0x0a, wrap(0x0a, wrap(0x0a, wrap(0x12, bytes)))))).toBe(false);
  });
});

it("splitExportRequest keeps every item once and in order, with its resource and scope, in parts within the limit", () => {
  fc.assert(
    fc.property(request, fc.integer({ min: 100, max: 2_000 }), (bytes, bytesMax) => {
      const parts = splitExportRequest(bytes, bytesMax) ?? [];
      expect(parts.flatMap(itemsOf)).toEqual(itemsOf(bytes));
      for (const part of parts)
        if (itemsOf(part).length > 1) expect(part.length).toBeLessThanOrEqual(bytesMax);
      expect(parts.reduce((sum, part) => sum + countItems(metricsSignal, part), 0)).toBe(
        countItems(metricsSignal, bytes),
      );
    }),
    { numRuns: runsOf(300) },
  );
});

it("O3: splits and repairs as many empty values as pass the check in 400 ms", async () => {
  const large = wrap(0x0a, wrap(0x12, wrap(0x12, wrap(0x0a, repeat([0x61], 1_000_000)))));
  // Spans, as an empty metric has no data point.
  const itemsIn = (part: Uint8Array) => countItems(signals[0] ?? metricsSignal, part);
  const small = [
    wrap(0x0a, wrap(0x12, repeat([0x12, 0], 490_000))),
    wrap(0x0a, wrap(0x12, repeat([0x12, 3, 0x0a, 1, 0xff], 50_000))),
  ];
  for (const body of small) {
    const bytes = Buffer.concat([body, large]);
    let parts: Uint8Array[] = [];
    const handle = () => {
      parts = splitExportRequest(check(bytes) === 0 ? bytes : repairText(bytes), 1_048_576) ?? [];
    };
    expect(await cpuMillisecondsOf(400, handle)).toBeLessThan(400);
    expect(parts.length).toBeGreaterThan(1);
    expect(parts.reduce((sum, part) => sum + itemsIn(part), 0)).toBe(itemsIn(bytes));
  }
});

it("does not split a request whose parts would be much larger than itself", () => {
  const attributes = [
    {
      key: "large",
      value: { value: { case: "stringValue" as const, value: "x".repeat(1_000_000) } },
    },
  ];
  const metrics = Array.from({ length: 100 }, (_, index) => ({ name: `metric ${index}` }));
  const bytes = toBinary(
    Schema,
    create(Schema, {
      resourceMetrics: [{ resource: { attributes }, scopeMetrics: [{ metrics }] }],
    }),
  );
  expect(splitExportRequest(bytes, 1_000_000) === null).toBe(true);
  expect(splitExportRequest(bytes, 1_001_000)?.length).toBe(2);
});

const itemsOf = (bytes: Uint8Array): unknown[] =>
  fromBinary(Schema, bytes).resourceMetrics.flatMap(({ resource, schemaUrl, scopeMetrics }) =>
    scopeMetrics.flatMap(({ scope, metrics }) =>
      metrics.map((item) => ({ resource, schemaUrl, scope, item })),
    ),
  );

/** A length-delimited field. */
const wrap = (tag: number, body: Uint8Array): Uint8Array =>
  new BinaryWriter().uint32(tag).bytes(body).finish();

const repeat = (unit: readonly number[], times: number): Uint8Array =>
  Buffer.alloc(unit.length * times, Buffer.from(unit));
