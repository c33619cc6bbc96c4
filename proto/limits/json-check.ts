import type { DescMessage } from "@bufbuild/protobuf";
import { WireLimitError } from "../wire.ts";
import { messageLimits } from "./message-limits.ts";
import {
  countValue,
  createShape,
  type FieldShape,
  type Shape,
  type ValueCounter,
} from "./message-shape.ts";

/** An open object or array, and the field of its next value: of the member, or of each element. */
interface Level {
  readonly isObject: boolean;
  readonly start: number;
  /** The message that an object is; undefined for one that the schema lacks. */
  readonly shape: Shape | undefined;
  /** Counts the elements of an array, or the members of a map. */
  readonly counter: ValueCounter | undefined;
  /** The values of a map. */
  readonly valueOfMap: FieldShape | undefined;
  field: Pick<FieldShape, "message" | "counter"> | undefined;
}

/**
 * Creates the check of messages in JSON, which works on their bytes before anything is parsed. It throws `WireLimitError` for more than
 * `messageLimits`. The parser rejects invalid JSON.
 */
export const createJsonCheck = (schema: DescMessage): ((bytes: Uint8Array) => void) => {
  const { shape, counters } = createShape(schema);
  return (bytes) => {
    for (const counter of counters) counter.count = 0;
    checkJson(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length), shape);
  };
};

const brace = 0x7b;
const braceEnd = 0x7d;
const bracket = 0x5b;
const bracketEnd = 0x5d;
const quote = 0x22;
const backslash = 0x5c;
const comma = 0x2c;
const colon = 0x3a;
const space = 0x20;

/** A message is longer in JSON: base64 and the names of its fields. */
const jsonFactor = 2;

const checkJson = (bytes: Buffer, message: Shape) => {
  const outer: Level[] = [];
  let level: Level = {
    isObject: false,
    start: 0,
    shape: undefined,
    counter: undefined,
    valueOfMap: undefined,
    field: { message, counter: undefined },
  };
  let values = 0;
  let isName = false;
  const countNext = () => {
    if (++values > messageLimits.fields)
      throw new WireLimitError(`the message is over the limit of ${messageLimits.fields} fields`);
    if (level.counter !== undefined) countValue(level.counter);
  };
  const open = (isObject: boolean, start: number) => {
    const { field } = level;
    if (outer.push(level) > 2 * messageLimits.depth)
      throw new WireLimitError("the message is nested too deeply");
    // An array's element has been counted already; otherwise the value is a list, or the object of a map.
    const counter = level.isObject ? field?.counter : undefined;
    const shape = isObject ? field?.message : undefined;
    level = {
      isObject,
      start,
      shape,
      counter,
      valueOfMap: counter && shape?.fields[2],
      field: isObject ? undefined : field,
    };
    isName = isObject;
  };
  const close = (end: number) => {
    const { shape, start } = level;
    if (shape !== undefined && end - start > jsonFactor * shape.bytesMax)
      throw new WireLimitError(`${shape.name} is over the limit of ${shape.bytesMax} bytes`);
    level = outer.pop() ?? level;
  };
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at] as number;
    if (byte <= space || byte === colon) continue;
    if (byte === comma) {
      isName = level.isObject;
      continue;
    }
    if (byte === braceEnd || byte === bracketEnd) {
      close(at);
      continue;
    }
    if (isName) {
      const end = endOfText(bytes, at);
      countNext();
      level.field = level.valueOfMap ?? level.shape?.names.get(nameIn(bytes, at + 1, end));
      isName = false;
      at = end;
      continue;
    }
    if (!level.isObject) countNext();
    if (byte === brace || byte === bracket) open(byte === brace, at);
    else if (byte === quote) at = endOfText(bytes, at);
    else at = endOfWord(bytes, at);
  }
};

/** Returns the index of the closing quote of a text that begins at `start`. */
const endOfText = (bytes: Uint8Array, start: number) => {
  let at = start + 1;
  while (at < bytes.length && bytes[at] !== quote) at += bytes[at] === backslash ? 2 : 1;
  return at;
};

/** Returns the index of the last byte of a number or a word. */
const endOfWord = (bytes: Uint8Array, start: number) => {
  let at = start;
  for (
    let next = bytes[at + 1] ?? 0;
    next > space && next !== comma && next !== braceEnd && next !== bracketEnd;
  ) {
    at += 1;
    next = bytes[at + 1] ?? 0;
  }
  return at;
};

/** Returns the name at a position. Names of the schema are ASCII, but a sender may escape them. */
const nameIn = (bytes: Buffer, start: number, end: number) =>
  bytes
    .toString("latin1", start, end)
    .replace(/\\u([0-9a-f]{4})/gi, (_, hex: string) =>
      String.fromCharCode(Number.parseInt(hex, 16)),
    );
