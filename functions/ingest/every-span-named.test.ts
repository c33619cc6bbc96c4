import { create, toBinary } from "@bufbuild/protobuf";
import * as fc from "fast-check";
import { expect, it } from "vitest";
import { ExportTraceServiceRequestSchema } from "#proto/gen/opentelemetry/proto/collector/trace/v1/trace_service_pb.js";
import { everySpanNamed } from "./examine-frame.ts";

/** Encodes a request as an SDK does: resources of scopes of spans, given by name. */
const request = (resources: string[][][]) =>
  toBinary(
    ExportTraceServiceRequestSchema,
    create(ExportTraceServiceRequestSchema, {
      resourceSpans: resources.map((scopes) => ({
        resource: {
          attributes: [
            {
              key: "service.name",
              value: { value: { case: "stringValue" as const, value: "health" } },
            },
          ],
        },
        schemaUrl: "https://example.test/health",
        scopeSpans: scopes.map((spans) => ({
          scope: { name: "health" },
          spans: spans.map((name) => ({
            name,
            traceId: new Uint8Array(16).fill(7),
            startTimeUnixNano: 2n ** 63n,
            flags: 257,
            events: [{ name: "health", timeUnixNano: 1n }],
            attributes: [
              { key: "d", value: { value: { case: "doubleValue" as const, value: 0.5 } } },
            ],
          })),
        })),
      })),
    }),
  );

const names = new Set(["health", "GET /ready"]);

it("G7: is true only when there is a span and every name matches exactly", () => {
  expect(everySpanNamed(request([[["health"]]]), names)).toBe(true);
  expect(everySpanNamed(request([[["health", "GET /ready"]], [["health"], []]]), names)).toBe(true);
  expect(everySpanNamed(request([[["health", "health "]]]), names)).toBe(false);
  expect(everySpanNamed(request([[["health"]], [["Health"]]]), names)).toBe(false);
  expect(everySpanNamed(request([[[""]]]), names)).toBe(false);
});

it("G7: is false for a request without spans", () => {
  expect(everySpanNamed(new Uint8Array(), names)).toBe(false);
  expect(everySpanNamed(request([]), names)).toBe(false);
  expect(everySpanNamed(request([[[]], []]), names)).toBe(false);
});

it("G7: is false for a request that does not parse, wherever it is cut or damaged", () => {
  const whole = request([[["health"]]]);
  for (let length = 1; length < whole.length; length++)
    expect(everySpanNamed(whole.subarray(0, length), names)).toBe(false);
  const group = Uint8Array.of(...whole, 0x1b, 0x1c);
  expect(everySpanNamed(group, names)).toBe(false);
  expect(everySpanNamed(Uint8Array.of(...whole, 0x08, 0x01), names)).toBe(false);
  // A name that is not UTF-8: ff inside resource_spans { scope_spans { spans { name } } }.
  expect(
    everySpanNamed(Uint8Array.of(0x0a, 7, 0x12, 5, 0x12, 3, 0x2a, 1, 0xff), new Set(["\ufffd"])),
  ).toBe(false);
});

it("agrees with a full decoder on every tree of spans", () => {
  const name = fc.constantFrom("health", "GET /ready", "other", "");
  fc.assert(
    fc.property(
      fc.array(fc.array(fc.array(name, { maxLength: 3 }), { maxLength: 3 }), { maxLength: 3 }),
      (tree) => {
        const all = tree.flat(2);
        expect(everySpanNamed(request(tree), names)).toBe(
          all.length > 0 && all.every((one) => names.has(one)),
        );
      },
    ),
  );
});

it("G7: compares names byte for byte, a byte order mark included", () => {
  expect(everySpanNamed(request([[["\ufeffhealth"]]]), names)).toBe(false);
  expect(everySpanNamed(request([[["\ufeffhealth"]]]), new Set(["\ufeffhealth"]))).toBe(true);
});

it("never throws, on any bytes", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 64 }), (bytes) => void everySpanNamed(bytes, names)),
  );
});
