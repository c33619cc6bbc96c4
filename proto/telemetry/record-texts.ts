/**
 * Telemetry as text for people: a line for each log line, log record, span and point of a metric. A host may send anything, so nothing is decoded
 * whole: records are found on the wire, and a limited number of them decoded one by one, each of limited size.
 */
import { fromBinary } from "@bufbuild/protobuf";
import { strictUtf8 } from "#kit/utf8.ts";
import type { AnyValue, KeyValue } from "../gen/opentelemetry/proto/common/v1/common_pb.js";
import {
  type LogRecord,
  LogRecordSchema,
  SeverityNumber,
} from "../gen/opentelemetry/proto/logs/v1/logs_pb.js";
import { type Metric, MetricSchema } from "../gen/opentelemetry/proto/metrics/v1/metrics_pb.js";
import { ResourceSchema } from "../gen/opentelemetry/proto/resource/v1/resource_pb.js";
import {
  type Span,
  Span_SpanKind,
  SpanSchema,
  Status_StatusCode,
} from "../gen/opentelemetry/proto/trace/v1/trace_pb.js";
import { eachValue, ProtobufError, readWire } from "../wire.ts";

/** The part of an envelope that its text needs; times are in microseconds since the Unix epoch. */
export interface TextEnvelope {
  kind: string;
  observedAt: bigint | null;
  receivedAt: bigint;
  source: string;
  attributes: Readonly<Record<string, string>>;
  payload: Uint8Array;
}

/** The most decoded records of an envelope, and bytes of one: two bytes on the wire can become an object of hundreds. */
const recordsMax = 10_000;
const recordBytesMax = 256 * 1024;
/** The cost of a record besides its bytes, of which it may have none. */
const recordBytesLeast = 16;
/** The most characters that all records of a resource, or points of a metric, repeat: two bytes on the wire become a line with all of them. */
const sharedTextMax = 256;

/**
 * Yields the lines of an envelope, or only those that contain `grep`, in any case; a record with line breaks has several. A line begins with its
 * time in UTC and its kind. A record that cannot be decoded has a line that says so. Also yields numbers, at which a caller can pause: the bytes
 * that were read, or the length of a line that was skipped.
 */
export function* recordTexts(
  envelope: TextEnvelope,
  grep = "",
): Generator<string | number, void, void> {
  const wanted = grep.toLowerCase();
  const textsOf = otlpTexts.get(envelope.kind);
  for (const text of textsOf === undefined ? [plainText(envelope)] : otlpLines(envelope, textsOf))
    yield typeof text === "number" || wanted === "" || text.toLowerCase().includes(wanted)
      ? text
      : text.length;
}

const at = (nanoseconds: bigint, { observedAt, receivedAt }: TextEnvelope): string =>
  isoTime(nanoseconds > 0n ? nanoseconds / 1000n : (observedAt ?? receivedAt));

/** Returns RFC 3339 in UTC with milliseconds, of microseconds. */
export const isoTime = (microseconds: bigint): string =>
  new Date(Number(microseconds / 1000n)).toISOString();

const plainText = (envelope: TextEnvelope): string => {
  const { kind, attributes, payload } = envelope;
  const { "file.path": path, ...rest } = attributes;
  const words = [
    at(0n, envelope),
    kind,
    path ?? "",
    ...Object.entries(rest).map(([name, value]) => pair(name, value)),
  ];
  return `${words.filter((word) => word !== "").join(" ")}: ${decodePlain(payload)}`;
};

const decodePlain = (payload: Uint8Array): string => {
  try {
    return strictUtf8.decode(payload);
  } catch {
    return `(${payload.length} bytes that are no text)`;
  }
};

/** Returns the lines of one record, and throws for one that cannot be decoded. */
type RecordTexts = (
  record: Uint8Array,
  service: string,
  envelope: TextEnvelope,
) => Iterable<string>;

function* otlpLines(
  envelope: TextEnvelope,
  textsOf: RecordTexts,
): Generator<string | number, void, void> {
  const { kind, payload } = envelope;
  const notDecoded = (what: string) => `${at(0n, envelope)} ${kind} (${what})`;
  const { records, isMalformed, ...found } = findRecords(payload);
  yield payload.length;
  let { more } = found;
  let left = recordsMax;
  let resource: Uint8Array | null = null;
  let service = "";
  for (const [index, { start, end, resource: itsResource }] of records.entries()) {
    if (left-- <= 0) {
      more += records.length - index;
      break;
    }
    yield end - start + recordBytesLeast;
    if (end - start > recordBytesMax) {
      yield notDecoded(`a record of ${end - start} bytes, which is not decoded`);
      continue;
    }
    if (itsResource !== resource) {
      resource = itsResource;
      service = serviceOf(resource);
      yield resource?.length ?? 0;
    }
    try {
      let lines = 0;
      for (const text of textsOf(payload.subarray(start, end), service, envelope)) {
        const isCut = lines++ > 0 && left-- <= 0;
        if (isCut) {
          yield notDecoded("more points of a metric, which are not decoded");
          break;
        }
        yield text;
      }
    } catch {
      yield notDecoded(`a record of ${end - start} bytes, which cannot be decoded`);
    }
  }
  if (isMalformed) yield notDecoded(`a payload of ${payload.length} bytes, which is malformed`);
  if (more > 0) yield notDecoded(`${more} more records, which are not decoded`);
}

interface FoundRecords {
  /** Where each of the first records is, and its resource. */
  records: { start: number; end: number; resource: Uint8Array | null }[];
  more: number;
  isMalformed: boolean;
}

/** Finds the records of a request without decoding them: requests of the three signals have the same field numbers. */
const findRecords = (payload: Uint8Array): FoundRecords => {
  const found: FoundRecords = { records: [], more: 0, isMalformed: false };
  try {
    readWire(payload, (reader) =>
      eachValue(reader, payload.length, 1, (resourceEnd) => {
        const start = reader.pos;
        let resource: Uint8Array | null = null;
        eachValue(reader, resourceEnd, 1, (end) => {
          resource = payload.subarray(reader.pos, end);
        });
        reader.pos = start;
        eachValue(reader, resourceEnd, 2, (scopeEnd) =>
          eachValue(reader, scopeEnd, 2, (end) => {
            if (found.records.length < recordsMax)
              found.records.push({ start: reader.pos, end, resource });
            else found.more++;
          }),
        );
      }),
    );
  } catch (cause) {
    if (!(cause instanceof ProtobufError)) throw cause;
    found.isMalformed = true;
  }
  return found;
};

const serviceOf = (resource: Uint8Array | null): string => {
  if (resource === null || resource.length > recordBytesMax) return "";
  try {
    const { attributes } = fromBinary(ResourceSchema, resource);
    const name = attributes.find(({ key }) => key === "service.name");
    return name ? shared(valueText(name.value)) : "";
  } catch {
    return "";
  }
};

const shared = (text: string): string =>
  text.length > sharedTextMax ? `${text.slice(0, sharedTextMax)}…` : text;
const words = (...parts: readonly string[]): string =>
  parts.filter((part) => part !== "").join(" ");
const unquotedPair = (name: string, value: string): string =>
  value === "" ? "" : `${name}=${value}`;
const pair = (name: string, value: string): string => unquotedPair(name, quoted(value));
const quoted = (text: string): string =>
  /[\s"]/.test(text) ? `"${text.replaceAll('"', '\\"')}"` : text;
const attributesText = (attributes: readonly KeyValue[]): string =>
  words(...attributes.map(({ key, value }) => pair(key, valueText(value))));
const idText = (name: string, id: Uint8Array): string => pair(name, id.toHex());

const valueText = (value: AnyValue | undefined): string => {
  const found = value?.value;
  switch (found?.case) {
    case undefined:
      return "";
    case "bytesValue":
      return found.value.toHex();
    case "arrayValue":
      return `[${found.value.values.map(nestedText).join(", ")}]`;
    case "kvlistValue":
      return `{${words(...found.value.values.map(({ key, value }) => unquotedPair(key, nestedText(value))))}}`;
    default:
      return String(found?.value);
  }
};

/** Formats a value within a list. Quotes only strings: quoting nested lists at each level would make megabytes of backslashes. */
const nestedText = (value: AnyValue | undefined): string => {
  const isList = value?.value.case === "arrayValue" || value?.value.case === "kvlistValue";
  return isList ? valueText(value) : quoted(valueText(value));
};

const spanTexts: RecordTexts = (record, service, envelope) => {
  const span: Span = fromBinary(SpanSchema, record);
  const { name, startTimeUnixNano: start, endTimeUnixNano: end, status, events } = span;
  const isError = status?.code === Status_StatusCode.ERROR;
  const milliseconds =
    end > 0n && end >= start ? `${(Number(end - start) / 1e6).toFixed(3)}ms` : "";
  const kind =
    span.kind > Span_SpanKind.INTERNAL ? (Span_SpanKind[span.kind] ?? "").toLowerCase() : "";
  const line = words(
    at(start, envelope),
    "span",
    name,
    kind,
    milliseconds,
    isError ? words("ERROR", status?.message ?? "") : "",
    pair("service", service),
    attributesText(span.attributes),
    idText("trace", span.traceId),
    idText("span", span.spanId),
    idText("parent", span.parentSpanId),
  );
  const parts = events.map(
    (event) => `event ${words(event.name, attributesText(event.attributes))}`,
  );
  return [[line, ...parts].join("\n")];
};

const logTexts: RecordTexts = (record, service, envelope) => {
  const log: LogRecord = fromBinary(LogRecordSchema, record);
  const line = words(
    at(log.timeUnixNano || log.observedTimeUnixNano, envelope),
    "log",
    log.severityText || (log.severityNumber > 0 ? (SeverityNumber[log.severityNumber] ?? "") : ""),
    log.eventName,
    valueText(log.body),
    pair("service", service),
    attributesText(log.attributes),
    idText("trace", log.traceId),
    idText("span", log.spanId),
  );
  return [line];
};

const metricTexts: RecordTexts = function* (record, service, envelope) {
  const { name, unit, data }: Metric = fromBinary(MetricSchema, record);
  const points: readonly Point[] = data.value?.dataPoints ?? [];
  for (const point of points)
    yield words(
      at(point.timeUnixNano, envelope),
      "metric",
      `${shared(name)}${pointText(point)}`,
      unit === "1" ? "" : shared(unit),
      pair("service", service),
      attributesText(point.attributes),
    );
};

type Point = NonNullable<Metric["data"]["value"]>["dataPoints"][number];

const pointText = (point: Point): string => {
  if ("value" in point) return `=${point.value.value ?? ""}`;
  const sum = point.sum === undefined ? "" : ` sum=${point.sum}`;
  if ("quantileValues" in point) {
    const quantiles = point.quantileValues.map(
      ({ quantile, value }) => ` p${quantile * 100}=${value}`,
    );
    return ` count=${point.count}${sum}${quantiles.join("")}`;
  }
  const extremes = [
    point.min === undefined ? "" : ` min=${point.min}`,
    point.max === undefined ? "" : ` max=${point.max}`,
  ];
  return ` count=${point.count}${sum}${extremes.join("")}`;
};

const otlpTexts = new Map<string, RecordTexts>(
  Object.entries({
    otel_span: spanTexts,
    otel_log: logTexts,
    otel_metric: metricTexts,
  }),
);
