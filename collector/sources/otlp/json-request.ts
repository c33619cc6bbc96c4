/** Converts OTLP/JSON to protobuf, record by record. Import it dynamically, as schemas.ts. */
import {
  type DescEnum,
  type DescField,
  type DescMessage,
  fromJson,
  type JsonObject,
  type JsonValue,
  toBinary,
} from "@bufbuild/protobuf";
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { JsonDepthError, JsonLimitError, jsonLimits, parseForeignJson } from "#kit/foreign-json.ts";
import { GrpcError } from "#proto/grpc-status.ts";
import { wireTag } from "#proto/wire.ts";
import type { ReadLosses, ReadRequest } from "./consumer.ts";
import { requestSchemas } from "./schemas.ts";
import type { Signal } from "./signals.ts";

const { depth: depthMax } = jsonLimits.otlp;

/**
 * Reads an export request in OTLP/JSON: ids in hex, unknown members ignored, enums by number or name. Leaves out items with an enum value that
 * does not exist, and those that nest too deeply. Throws `GrpcError` for anything else that is no export request.
 */
export const readJsonRequest = ({ kind }: Signal, body: Uint8Array): Required<ReadRequest> => {
  const losses: ReadLosses = { leftOut: 0, reason: "", repaired: 0 };
  try {
    // `prepare` limits the depth, of each item by itself.
    const limits = { ...jsonLimits.otlp, depth: Number.POSITIVE_INFINITY };
    const json = parseForeignJson(body, limits) as JsonValue;
    const payload = encode({ schema: requestSchemas[kind], levels: 2, path: "", losses }, json);
    return { payload, losses };
  } catch (error) {
    if (error instanceof JsonLimitError && !(error instanceof JsonDepthError))
      throw new GrpcError("resource_exhausted", `${error.message}: send fewer items at once`);
    // The parsers' errors have no types of their own, and their messages quote the body.
    throw new GrpcError("invalid_argument", "the body is not an OTLP/JSON export request");
  }
};

/** A message of a request whose lists nest `levels` deep. */
interface Part {
  schema: DescMessage;
  levels: number;
  /** Where in the request it is, as `resourceSpans[0].`. */
  path: string;
  losses: ReadLosses;
}

/** How many items become messages at once: all of them would take ten times the memory of their JSON. */
const itemsAtOnce = 500;

/** Encodes a part. Converts each resource and scope by itself, and a few items at a time. */
const encode = ({ schema, levels, path, losses }: Part, json: JsonValue): Uint8Array => {
  const convert = (own: JsonValue) =>
    toBinary(schema, fromJson(schema, own, { ignoreUnknownFields: true }));
  if (!isObject(json)) return convert(json);
  const own = { ...json };
  const writer = new BinaryWriter();
  for (const field of schema.fields)
    for (const member of membersOf(field)) {
      const { fieldKind, message, number } = field;
      const list = own[member];
      if (fieldKind !== "list" || message === undefined || !Array.isArray(list)) continue;
      delete own[member];
      const place = `${path}${member}`;
      if (levels === 0) {
        const items = readableItemsOf(message, list, place, losses);
        for (let from = 0; from < items.length; from += itemsAtOnce)
          writer.raw(convert({ [member]: items.slice(from, from + itemsAtOnce) }));
        continue;
      }
      for (const [index, item] of list.entries()) {
        const part = { schema: message, levels: levels - 1, path: `${place}[${index}].`, losses };
        writer.uint32(wireTag(number, WireType.LengthDelimited)).bytes(encode(part, item));
      }
    }
  losses.repaired += prepare(own);
  return writer.raw(convert(own)).finish();
};

const isObject = (json: JsonValue | undefined): json is JsonObject =>
  typeof json === "object" && json !== null && !Array.isArray(json);

/** Returns the names that a field may have in JSON. */
const membersOf = ({ jsonName, name }: DescField): readonly string[] =>
  jsonName === name ? [name] : [jsonName, name];

/** Returns the items that can be converted. Counts the others, with the reason for the first. */
const readableItemsOf = (
  schema: DescMessage,
  items: readonly JsonValue[],
  path: string,
  losses: ReadLosses,
): JsonValue[] =>
  items.filter((item, index) => {
    const fault = prepareItem(schema, item, losses);
    if (fault === undefined) return true;
    losses.leftOut += countRejected(item);
    losses.reason ||= `left out items, the first because ${path}[${index}]${fault}`;
    return false;
  });

/** Returns how many items a rejected record is: a metric's data points, else one. */
const countRejected = (item: JsonValue): number => {
  const points = isObject(item)
    ? Object.values(item).flatMap((data) =>
        isObject(data) ? (data.dataPoints ?? data.data_points ?? []) : [],
      )
    : [];
  return Math.max(1, points.length);
};

/** Prepares an item for its conversion, in place. Returns why it cannot be converted, after its path; undefined if it can. */
const prepareItem = (
  schema: DescMessage,
  item: JsonValue,
  losses: ReadLosses,
): string | undefined => {
  try {
    losses.repaired += prepare(item);
  } catch (error) {
    if (error instanceof JsonDepthError) return ` ${error.message}`;
    throw error;
  }
  const fault = readEnums(schema, item);
  return fault === undefined ? undefined : `.${fault}`;
};

/** The fields that OTLP/JSON writes in hex where protobuf's JSON has base64. As member names they occur nowhere else. */
const idFields = new Set([
  "traceId",
  "spanId",
  "parentSpanId",
  "trace_id",
  "span_id",
  "parent_span_id",
]);

/**
 * Converts ids to base64 and replaces lone surrogates by U+FFFD, in place: a copy would double the memory. Returns how many strings had some.
 * Throws `JsonDepthError`.
 */
const prepare = (json: JsonValue, depth = 1): number => {
  if (typeof json !== "object" || json === null) return 0;
  if (depth > depthMax) throw new JsonDepthError(`nests deeper than ${depthMax}`);
  const members = json as JsonObject;
  let repaired = 0;
  for (const name of Object.keys(members)) {
    const member = members[name] as JsonValue;
    if (typeof member !== "string") repaired += prepare(member, depth + 1);
    else if (idFields.has(name)) members[name] = Uint8Array.fromHex(member).toBase64();
    else if (!member.isWellFormed()) {
      members[name] = member.toWellFormed();
      repaired += 1;
    }
  }
  return repaired;
};

/** Replaces the enum values of a message by their numbers, in place. Returns the path of the first that does not exist, and what it should be. */
const readEnums = (schema: DescMessage, json: JsonValue | undefined): string | undefined => {
  if (!isObject(json)) return undefined;
  for (const field of schema.fields) {
    if (field.fieldKind !== "enum" && field.fieldKind !== "message") continue;
    for (const member of membersOf(field)) {
      const value = json[member];
      if (value === undefined) continue;
      if (field.fieldKind === "message") {
        const fault = readEnums(field.message, value);
        if (fault !== undefined) return `${member}.${fault}`;
        continue;
      }
      const number = enumNumber(field.enum, value);
      if (number === undefined) return `${member} is not a value of ${field.enum.name}`;
      json[member] = number;
    }
  }
  return undefined;
};

/** Returns the number of an enum value by its number or its name, also the short one that senders such as Fluent Bit write: `ERROR`. */
const enumNumber = ({ values }: DescEnum, json: JsonValue): number | null | undefined => {
  if (json === null || (typeof json === "number" && Number.isInteger(json))) return json;
  if (typeof json !== "string") return undefined;
  const wanted = json.toUpperCase();
  return values.find(({ name, localName }) => name === wanted || localName === wanted)?.number;
};
