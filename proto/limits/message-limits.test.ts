import { readFileSync } from "node:fs";
import { type DescField, type DescMessage, ScalarType } from "@bufbuild/protobuf";
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { describe, expect, it } from "vitest";
import { repositoryFiles } from "#scripts/repository-files.ts";
import { isTest } from "#scripts/verify/imports.ts";
import { Health } from "../gen/grpc/health/v1/health_pb.js";
import { ServerReflection } from "../gen/grpc/reflection/v1/reflection_pb.js";
import { ServerReflection as EarlierReflection } from "../gen/grpc/reflection/v1alpha/reflection_pb.js";
import { AgentToServerSchema } from "../gen/opamp/v1/opamp_pb.js";
import { ExportLogsServiceRequestSchema } from "../gen/opentelemetry/proto/collector/logs/v1/logs_service_pb.js";
import { ExportMetricsServiceRequestSchema } from "../gen/opentelemetry/proto/collector/metrics/v1/metrics_service_pb.js";
import { ExportTraceServiceRequestSchema } from "../gen/opentelemetry/proto/collector/trace/v1/trace_service_pb.js";
import {
  AccountBodySchema,
  EnvelopesSchema,
  IngestService,
} from "../gen/svc/ingest/v1/ingest_pb.js";
import { ObjectFooterSchema } from "../gen/svc/ingest/v1/stored_object_pb.js";
import { WireLimitError } from "../wire.ts";
import { createJsonCheck } from "./json-check.ts";
import { bytesMaxOf, messageLimits, valuesMaxOf } from "./message-limits.ts";
import { createWireCheck } from "./wire-check.ts";

/** What core and the collector decode of others. */
const received = [
  ...[IngestService, ServerReflection, EarlierReflection, Health].flatMap(({ methods }) =>
    methods.map(({ input }) => input),
  ),
  EnvelopesSchema,
  AccountBodySchema,
  ObjectFooterSchema,
  AgentToServerSchema,
  ExportTraceServiceRequestSchema,
  ExportLogsServiceRequestSchema,
  ExportMetricsServiceRequestSchema,
];

/** Decoded from bytes that are few already: a record of at most 64 KiB (record-texts.ts), and a backend's answer (otlp-outcome.ts). */
const fewBytes = [
  "ResourceSchema",
  "SpanSchema",
  "LogRecordSchema",
  "MetricSchema",
  "StatusSchema",
  "RetryInfoSchema",
];

/** A repeated field or a map, and the fields through which a message has it. */
interface Place {
  field: DescField;
  path: readonly DescField[];
}

const placesOf = (schema: DescMessage, path: readonly DescField[] = []): Place[] =>
  schema.fields.flatMap((field) => {
    const isRecursive = path.some(
      ({ message }) => message === field.message && message !== undefined,
    );
    const nested = field.message && !isRecursive ? placesOf(field.message, [...path, field]) : [];
    return field.fieldKind === "list" || field.fieldKind === "map"
      ? [{ field, path }, ...nested]
      : nested;
  });

const nameOf = ({ parent, name }: DescField) => `${parent.typeName}.${name}`;

/** One place of each field. */
const places = new Map(
  received.flatMap((schema) =>
    placesOf(schema).map((place) => [nameOf(place.field), { schema, ...place }]),
  ),
);

const isFixed = ({ scalar }: DescField): boolean =>
  scalar === ScalarType.FIXED64 || scalar === ScalarType.DOUBLE;
const isPacked = (field: DescField) => field.fieldKind === "list" && field.packed;

const delimited = (number: number, body: Uint8Array) =>
  new BinaryWriter().tag(number, WireType.LengthDelimited).bytes(body).finish();

/** Encodes so many empty values of a field. */
const valuesOf = (field: DescField, count: number) => {
  if (isPacked(field))
    return delimited(field.number, new Uint8Array(isFixed(field) ? 8 * count : count));
  const value = delimited(field.number, new Uint8Array());
  return Buffer.alloc(value.length * count, value);
};

/** The same in JSON. */
const jsonValuesOf = ({ fieldKind, message, scalar }: DescField, count: number) => {
  const value = message
    ? "{}"
    : scalar === ScalarType.STRING || scalar === ScalarType.BYTES
      ? '""'
      : "0";
  return fieldKind === "map"
    ? `{${'"":"",'.repeat(count).slice(0, -1)}}`
    : `[${`${value},`.repeat(count).slice(0, -1)}]`;
};

/** Encodes the message at the end of a path; an entry of a map has it as its second field. */
const within = (path: readonly DescField[], message: Uint8Array) =>
  path.reduceRight(
    (body, { number, fieldKind }) =>
      delimited(number, fieldKind === "map" ? delimited(2, body) : body),
    message,
  );

const jsonValueOf = (fieldKind: DescField["fieldKind"], inner: string) => {
  if (fieldKind === "list") return `[${inner}]`;
  return fieldKind === "map" ? `{"":${inner}}` : inner;
};

const jsonWithin = (path: readonly DescField[], body: string) =>
  path.reduceRight(
    (inner, { jsonName, fieldKind }) => `{"${jsonName}" : ${jsonValueOf(fieldKind, inner)} }`,
    body,
  );

const refusalOf = (check: (bytes: Uint8Array) => unknown, message: Uint8Array) => {
  try {
    check(message);
    return undefined;
  } catch (error) {
    if (!(error instanceof WireLimitError)) throw error;
    return error.message;
  }
};
const wireRefusal = (schema: DescMessage, message: Uint8Array) =>
  refusalOf(createWireCheck(schema).check, message);
const jsonRefusal = (schema: DescMessage, text: string) =>
  refusalOf(createJsonCheck(schema), new TextEncoder().encode(text));

const submit = IngestService.method.submit.input;

describe.each([[received.length, places.size]])(
  "messageLimits of %i messages and %i repeated fields",
  () => {
    it.each([...places])(
      "O1: bounds the values of %s on the wire and in JSON",
      (name, { schema, path, field }) => {
        const max = valuesMaxOf(name);
        const refusal = `${field.name} is over the limit of ${max} values`;
        const message = (count: number) => within(path, valuesOf(field, count));
        expect(wireRefusal(schema, message(max + 1))).toBe(refusal);
        expect(wireRefusal(schema, message(1))).toBeUndefined();
        const json = (count: number) =>
          jsonWithin(path, `{"${field.name}":${jsonValuesOf(field, count)}}`);
        expect(jsonRefusal(schema, json(max + 1))).toBe(refusal);
        expect(jsonRefusal(schema, json(1))).toBeUndefined();
      },
    );

    it("O1: bounds the depth of recursive messages", () => {
      // An attribute of a resource, its value, and within that arrays of values.
      const nest = (depth: number) =>
        [1, 1, 1, 2, ...Array(depth).fill([5, 1]).flat()].reduceRight(
          (body: Uint8Array, number: number) => delimited(number, body),
          new Uint8Array(),
        );
      const logs = ExportLogsServiceRequestSchema;
      expect(wireRefusal(logs, nest(messageLimits.depth / 2))).toContain("nested too deeply");
      expect(wireRefusal(logs, nest(40))).toBeUndefined();
      const nestJson = (depth: number) => `${"[".repeat(depth)}${"]".repeat(depth)}`;
      expect(jsonRefusal(submit, nestJson(2 * messageLimits.depth + 1))).toContain(
        "nested too deeply",
      );
      expect(jsonRefusal(submit, nestJson(2 * messageLimits.depth))).toBeUndefined();
    });

    it("O1: bounds unknown fields, fields that come again, and the bytes of a message", () => {
      const open = (bytes: number, tag: number) => delimited(2, new Uint8Array(bytes).fill(tag));
      // Field 15 is unknown; field 5 of an Open is `acked_through`.
      expect(wireRefusal(submit, open(2 * messageLimits.singular, 0x78))).toBeUndefined();
      for (const tag of [0x78, 0x28])
        expect(wireRefusal(submit, open(2 * messageLimits.singular + 2, tag))).toContain(
          "repeats fields",
        );
      const forward = IngestService.method.forward.input;
      const limited = forward.fields.filter(
        ({ message }) => message && Number.isFinite(bytesMaxOf(message.typeName)),
      );
      expect(limited.map(({ name }) => name)).toEqual(["open", "status", "account"]);
      for (const { number, message } of limited) {
        const bytesMax = bytesMaxOf(message?.typeName ?? "");
        const within = (bytes: number) => delimited(number, delimited(15, new Uint8Array(bytes)));
        expect(wireRefusal(forward, within(bytesMax))).toBe(
          `${message?.name} is over the limit of ${bytesMax} bytes`,
        );
        expect(wireRefusal(forward, within(bytesMax - 10))).toBeUndefined();
      }
      expect(jsonRefusal(submit, `{"open":{"hostId":"${"x".repeat(8192)}"}}`)).toBe(
        "Open is over the limit of 4096 bytes",
      );
      expect(jsonRefusal(submit, `{"other":[${"0,".repeat(messageLimits.fields)}0]}`)).toContain(
        "fields",
      );
    });

    it("O1: counts names and values of JSON as a parser reads them", () => {
      const ids = (count: number) => `[${Array(count).fill('"\\",["').join()}]`;
      expect(jsonRefusal(submit, `{"open":{"previousSessionId\\u0073":${ids(17)}}}`)).toContain(
        "previous_session_ids",
      );
      expect(jsonRefusal(submit, `{"\\"open":{"previousSessionIds":${ids(17)}}}`)).toBeUndefined();
      expect(
        jsonRefusal(
          submit,
          ` { "open" : { "hostId":"{[,:" , "previousSessionIds" :${ids(16)}, "takesDirectives":true}}`,
        ),
      ).toBeUndefined();
      expect(jsonRefusal(submit, "]}},,:")).toBeUndefined();
    });

    it("O1: is asked of each message that is decoded", () => {
      const files = repositoryFiles("collector", "functions", "proto", "admin").filter(
        (path) => /\.ts$/.test(path) && !isTest(path) && !path.startsWith("proto/gen/"),
      );
      const decoded = files.flatMap((path) =>
        Array.from(
          readFileSync(path, "utf8").matchAll(/\bfrom(?:Binary|Json|JsonString)\(\s*(\w+)/g),
          ([, name]) => name,
        ),
      );
      // The schema of one of several: collector/sources/otlp/schemas.ts, and the lines of an envelope in the terminal of an operator.
      const known = [
        ...received.map(({ name }) => `${name}Schema`),
        ...fewBytes,
        "requests",
        "schema",
      ];
      expect(
        [...new Set(decoded)].filter((name) => name !== undefined && !known.includes(name)),
      ).toEqual([]);
      expect(decoded.length).toBeGreaterThan(15);
    });
  },
);
