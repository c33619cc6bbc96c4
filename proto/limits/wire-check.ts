import type { DescMessage } from "@bufbuild/protobuf";
import { type BinaryReader, BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import {
  eachField,
  ProtobufError,
  readTag,
  readValueEnd,
  readWire,
  WireDepthError,
  WireLimitError,
} from "../wire.ts";
import { messageLimits } from "./message-limits.ts";
import { countValue, createShape, type FieldShape, type Shape } from "./message-shape.ts";

/** Checks messages of one schema without decoding them. */
export interface WireCheck {
  /**
   * Throws `ProtobufError` unless `bytes` are well formed, at every depth that the schema has, and `WireLimitError` as soon as it has counted
   * more than `messageLimits`; `WireDepthError` only if nothing else is wrong. Returns how many strings are not UTF-8.
   */
  check(bytes: Uint8Array): number;
  /** Returns a well-formed message with U+FFFD for every byte sequence in its strings that is not UTF-8, as OTLP recommends. */
  repairText(bytes: Uint8Array): Uint8Array;
  /** Returns a well-formed message with what `change` returns for its strings; the message itself if that is undefined for all of them. */
  rewriteText(bytes: Uint8Array, change: ChangeText): Uint8Array;
}

/** Returns what replaces the bytes of a string; undefined if it stays. */
type ChangeText = (text: Uint8Array) => Uint8Array | undefined;

/**
 * Creates the check for `schema`, in a tenth of the time of decoding. The collector checks OTLP requests, which it forwards undecoded, and core
 * each message before it decodes it. With `isUtf8`, applies the limits of forwarded messages and finds the strings to repair; without it,
 * accepts all strings.
 */
export const createWireCheck = (
  schema: DescMessage,
  isUtf8?: (bytes: Uint8Array) => boolean,
): WireCheck => {
  const { shape, counters } = createShape(schema);
  const rewriteText: WireCheck["rewriteText"] = (bytes, change) =>
    readWire(
      bytes,
      (reader) => rewriteMessage({ reader, bytes, change }, bytes.length, shape) ?? bytes,
    );
  return {
    check: (bytes) =>
      readWire(bytes, (reader) => {
        for (const counter of counters) counter.count = 0;
        const max = isUtf8 ? messageLimits.passed : messageLimits;
        const checking: Checking = {
          reader,
          bytes,
          isUtf8,
          max,
          invalidTexts: 0,
          fields: 0,
          isTooDeep: false,
        };
        checkMessage(checking, 0, bytes.length, shape, 0);
        if (checking.isTooDeep) throw new WireDepthError("the message is nested too deeply");
        return checking.invalidTexts;
      }),
    repairText: (bytes) =>
      rewriteText(bytes, (text) =>
        isUtf8?.(text) ? undefined : encoder.encode(lenient.decode(text)),
      ),
    rewriteText,
  };
};

/** The state of the check of a message. */
interface Checking {
  readonly reader: BinaryReader;
  readonly bytes: Uint8Array;
  readonly isUtf8: ((bytes: Uint8Array) => boolean) | undefined;
  readonly max: { readonly fields: number; readonly singular: number };
  fields: number;
  invalidTexts: number;
  /** Messages beyond the limit of the depth were not checked. */
  isTooDeep: boolean;
}

/** Checks the bytes from `start` to `end`. Reads tags and lengths of one byte inline, because this runs for every field of every span. */
const checkMessage = (
  checking: Checking,
  start: number,
  end: number,
  shape: Shape,
  depth: number,
) => {
  const { reader, bytes, max } = checking;
  if (depth > messageLimits.depth) {
    checking.isTooDeep = true;
    return;
  }
  checkSize(shape, end - start);
  let fields = 0;
  let singular = 0;
  for (let at = start, to = start; at < end; at = to) {
    let tag = bytes[at] as number;
    if (tag >= 8 && tag < 0x80) at += 1;
    else {
      reader.pos = at;
      tag = readTag(reader, end);
      at = reader.pos;
    }
    const wireType = tag & 7;
    const length = bytes[at] as number;
    to = at + 1 + length;
    if (wireType === WireType.LengthDelimited && length < 0x80 && to <= end) at += 1;
    else {
      reader.pos = at;
      to = readValueEnd(reader, tag, end);
      at = reader.pos;
    }
    fields++;
    const field = shape.fields[tag >>> 3];
    if (field === undefined) {
      singular++;
      continue;
    }
    const { counter, message, isText } = field;
    if (counter === undefined) singular++;
    if (field.wireType !== wireType) checkOther(checking, at, to, field, wireType);
    else if (counter !== undefined) countValue(counter);
    if (isText) checkText(checking, at, to);
    else if (message !== undefined) checkMessage(checking, at, to, message, depth + 1);
  }
  if (singular > max.singular)
    throw new WireLimitError(`${shape.name} repeats fields that occur once`, shape.name);
  countFields(checking, fields);
};

const checkSize = (shape: Shape, bytes: number) => {
  if (bytes > shape.bytesMax)
    throw new WireLimitError(`${shape.name} is over the limit of ${shape.bytesMax} bytes`);
};

/** Counts the fields of a message together: counting each one takes a third of the check's time. */
const countFields = (checking: Checking, count: number) => {
  checking.fields += count;
  const { fields } = checking.max;
  if (checking.fields > fields)
    throw new WireLimitError(`the message is over the limit of ${fields} fields`);
};

/** Checks a value of another wire type than the schema's: packed numbers, or of a field that it lacks. */
const checkOther = (
  checking: Checking,
  start: number,
  end: number,
  field: FieldShape | undefined,
  wireType: number,
) => {
  if (field === undefined) return;
  if (!field.packable || wireType !== WireType.LengthDelimited)
    throw new ProtobufError("a field has another type than the schema says");
  const { reader, isUtf8 } = checking;
  let values = 0;
  reader.pos = start;
  while (reader.pos < end) {
    reader.pos = readValueEnd(reader, field.wireType, end);
    values++;
    if (field.counter !== undefined && !isUtf8) countValue(field.counter);
  }
  countFields(checking, values);
};

const isAscii = (bytes: Uint8Array, start: number, end: number) => {
  for (let at = start; at < end; at++) if ((bytes[at] ?? 0) >= 0x80) return false;
  return true;
};

const checkText = (checking: Checking, start: number, end: number) => {
  const { bytes, isUtf8 } = checking;
  if (isAscii(bytes, start, end) || (isUtf8?.(bytes.subarray(start, end)) ?? true)) return;
  checking.invalidTexts += 1;
  const { repairedTexts } = messageLimits.passed;
  if (checking.invalidTexts > repairedTexts)
    throw new WireLimitError(
      `the message is over the limit of ${repairedTexts} strings that are not UTF-8`,
    );
};

const lenient = new TextDecoder("utf-8", { ignoreBOM: true });
const encoder = new TextEncoder();

/** Returns the message that ends at `end` with changed strings; undefined if none changes. */
const rewriteMessage = (
  rewriting: Pick<Checking, "reader" | "bytes"> & { readonly change: ChangeText },
  end: number,
  shape: Shape,
): Uint8Array | undefined => {
  const { reader, bytes, change } = rewriting;
  const parts: Uint8Array[] = [];
  let fieldStart = reader.pos;
  let copied = reader.pos;
  eachField(reader, end, (tag, to) => {
    const field = shape.fields[tag >>> 3];
    let body: Uint8Array | undefined;
    if (field?.isText) body = change(bytes.subarray(reader.pos, to));
    else if (field?.message !== undefined) body = rewriteMessage(rewriting, to, field.message);
    if (body !== undefined) {
      const head = new BinaryWriter().uint32(tag).uint32(body.length).finish();
      parts.push(bytes.subarray(copied, fieldStart), head, body);
      copied = to;
    }
    fieldStart = to;
  });
  return parts.length === 0 ? undefined : Buffer.concat([...parts, bytes.subarray(copied, end)]);
};
