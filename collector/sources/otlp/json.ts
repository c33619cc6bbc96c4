import { type DescMessage, fromJson, type JsonValue, type MessageShape, toBinary } from "@bufbuild/protobuf";

/** The body is not OTLP/JSON. The message does not quote it. */
export class OtlpJsonError extends Error {
  constructor(options?: ErrorOptions) {
    super("the body is not an OTLP/JSON export request", options);
    this.name = "OtlpJsonError";
  }
}

/** The fields that OTLP/JSON writes in hex where protobuf's JSON has base64. As member names they occur nowhere else. */
const idFields = new Set(["traceId", "spanId", "parentSpanId", "trace_id", "span_id", "parent_span_id"]);
const depthMax = 100;

/** Protobuf of an export request in OTLP/JSON: ids in hex, unknown members ignored, enums by number or name. */
export const exportRequestFromJson = (schema: DescMessage, text: string): Uint8Array => {
  try {
    const json: JsonValue = JSON.parse(text);
    const message: MessageShape<DescMessage> = fromJson(schema, withBase64Ids(json, 0), { ignoreUnknownFields: true });
    return toBinary(schema, message);
  } catch (cause) {
    throw new OtlpJsonError({ cause });
  }
};

const withBase64Ids = (value: JsonValue, depth: number): JsonValue => {
  if (depth > depthMax) throw new RangeError("the document is nested too deeply");
  if (Array.isArray(value)) return value.map((item) => withBase64Ids(item, depth + 1));
  if (typeof value !== "object" || value === null) return value;
  const copy: Record<string, JsonValue> = Object.create(null);
  for (const [name, member] of Object.entries(value))
    copy[name] =
      typeof member === "string" && idFields.has(name)
        ? Uint8Array.fromHex(member).toBase64()
        : withBase64Ids(member, depth + 1);
  return copy;
};
