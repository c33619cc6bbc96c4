/**
 * Reads protobuf without decoding it (protobuf.dev/programming-guides/encoding), to check, count or copy parts of a message. Adds to
 * `BinaryReader` of @bufbuild/protobuf that a nested message ends before the bytes do.
 */
import { BinaryReader, BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { strictUtf8 } from "#kit/utf8.ts";

/** The bytes are not well-formed protobuf. The message does not quote them. */
export class ProtobufError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "ProtobufError";
  }
}

/** Reports that a message exceeds `messageLimits`. The text does not quote it. */
export class WireLimitError extends ProtobufError {
  override name: string = "WireLimitError";
  /** The repeated field or map that has too many values; undefined when the message as a whole is too large. */
  readonly field: string | undefined;

  constructor(message: string, field?: string) {
    super(message);
    this.field = field;
  }
}

/** Reports that a message nests too deeply. */
export class WireDepthError extends WireLimitError {
  override readonly name = "WireDepthError";
}

/** Returns the tag of a field of up to 15, one byte: its number and its wire type. */
export const wireTag = (number: number, type: WireType): number => (number << 3) | type;

/** Encodes the tag and the length of a length-delimited field. */
export const wireHead = (tag: number, length: number): Uint8Array =>
  new BinaryWriter().uint32(tag).uint32(length).finish();

/** Calls `read` with a reader of `bytes`. Throws `ProtobufError` if they end inside a field or have a varint that is too long. */
export const readWire = <Result>(
  bytes: Uint8Array,
  read: (reader: BinaryReader) => Result,
): Result => {
  try {
    return read(new BinaryReader(bytes));
  } catch (cause) {
    if (isReaderFault(cause)) throw new ProtobufError("a field is cut off or malformed", { cause });
    throw cause;
  }
};

/** `BinaryReader` throws plain errors: "invalid varint", "illegal tag", and a RangeError at the end of the bytes. */
const isReaderFault = (cause: unknown) =>
  cause instanceof RangeError || (cause instanceof Error && cause.constructor === Error);

/** Reads the tag of a field in a message that ends at `end`. */
export const readTag = (reader: BinaryReader, end: number): number => {
  const start = reader.pos;
  const tag = reader.uint32();
  if (reader.pos - start >= 5) {
    // `uint32` drops bits above 32; `tag`, which allocates, rejects them.
    reader.pos = start;
    reader.tag();
  }
  if (tag < wireTag(1, WireType.Varint)) throw new ProtobufError("a field has the number 0");
  if (reader.pos > end) throw cutOff();
  return tag;
};

/** Reads the length of a field in a message that ends at `end`, and returns where the value ends. The reader is then at its beginning. */
export const readLength = (reader: BinaryReader, end: number): number => {
  const to = reader.uint32() + reader.pos;
  if (to > end) throw cutOff();
  return to;
};

/** Returns where the value of the field with this tag ends, and moves the reader to its first byte. Rejects groups, which proto3 lacks. */
export const readValueEnd = (reader: BinaryReader, tag: number, end: number): number => {
  switch (tag & 7) {
    case WireType.LengthDelimited:
      return readLength(reader, end);
    case WireType.Varint: {
      const start = reader.pos;
      reader.uint32();
      const to = reader.pos;
      reader.pos = start;
      if (to > end) throw cutOff();
      return to;
    }
    case WireType.Bit64:
      if (reader.pos + 8 > end) throw cutOff();
      return reader.pos + 8;
    case WireType.Bit32:
      if (reader.pos + 4 > end) throw cutOff();
      return reader.pos + 4;
    default:
      throw new ProtobufError("a field has an unknown wire type");
  }
};

/** Calls `visit` with the tag and the end of each field of the message that ends at `end`; the reader is where the field's value begins. */
export const eachField = (
  reader: BinaryReader,
  end: number,
  visit: (tag: number, valueEnd: number) => void,
): void => {
  while (reader.pos < end) {
    const tag = readTag(reader, end);
    const to = readValueEnd(reader, tag, end);
    visit(tag, to);
    reader.pos = to;
  }
};

/** Calls `visit` with the end of each value of one length-delimited field; other fields are skipped. */
export const eachValue = (
  reader: BinaryReader,
  end: number,
  number: number,
  visit: (valueEnd: number) => void,
): void =>
  eachField(reader, end, (tag, to) => {
    if (tag >>> 3 !== number) return;
    if ((tag & 7) !== WireType.LengthDelimited)
      throw new ProtobufError("a field has another type than the schema says");
    visit(to);
  });

/** Decodes the value of a string field. Throws `ProtobufError` unless it is UTF-8. */
export const decodeText = (bytes: Uint8Array): string => {
  try {
    return strictUtf8.decode(bytes);
  } catch (cause) {
    throw new ProtobufError("text is not UTF-8", { cause });
  }
};

const cutOff = (): ProtobufError => new ProtobufError("a field ends beyond its message");
