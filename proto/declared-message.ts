/**
 * Protobuf messages by the declaration of their fields, for those that a collector needs from its start on: the library's descriptors would
 * take a seventh of that.
 */
import { type BinaryReader, BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { mapValues } from "#kit/map-values.ts";
import { decodeText, eachField, readWire, wireTag } from "./wire.ts";

/** A message's bytes, and a reader of them. */
interface Source {
  readonly bytes: Uint8Array;
  readonly reader: BinaryReader;
}

/** A field of a message. */
interface Field<Value> {
  readonly tag: number;
  /** Returns the value of a field that is absent. */
  absent(): Value;
  /** Writes the tag and a value. */
  write(writer: BinaryWriter, value: Value): void;
  /** Reads a value; `before` is that of the field until then. */
  read(source: Source, end: number, before: Value): Value;
}

const fieldOf =
  <Value>(
    type: WireType,
    absent: () => Value,
    write: (writer: BinaryWriter, value: Value) => unknown,
    read: (source: Source, end: number) => Value,
  ) =>
  (number: number): Field<Value> => {
    const tag = wireTag(number, type);
    return { tag, absent, write: (writer, value) => write(writer.uint32(tag), value), read };
  };

/** Declares text. */
export const textField = fieldOf(
  WireType.LengthDelimited,
  () => "",
  (writer, value) => writer.string(value),
  ({ bytes, reader }, end) => decodeText(bytes.subarray(reader.pos, end)),
);

/** Declares bytes. */
export const bytesField = fieldOf<Uint8Array>(
  WireType.LengthDelimited,
  () => new Uint8Array(),
  (writer, value) => writer.bytes(value),
  ({ bytes, reader }, end) => bytes.slice(reader.pos, end),
);

/** Declares an integer, which is not exact beyond 2^53. */
export const integerField = fieldOf(
  WireType.Varint,
  () => 0,
  (writer, value) => writer.int64(value),
  ({ reader }) => Number(reader.int64()),
);

/** Declares a boolean. */
export const flagField = fieldOf(
  WireType.Varint,
  () => false,
  (writer, value) => writer.bool(value),
  ({ reader }) => reader.bool(),
);

/** Declares a field that is null where it is absent. */
export const optionalField = <Value>(field: Field<Value>): Field<Value | null> => ({
  ...field,
  absent: () => null,
  write: (writer, value) => value !== null && field.write(writer, value),
  read: (source, end) => field.read(source, end, field.absent()),
});

/** Declares a list of a field's values. */
export const listField = <Value>(field: Field<Value>): Field<readonly Value[]> => ({
  ...field,
  absent: () => [],
  write: (writer, values) => {
    for (const value of values) field.write(writer, value);
  },
  read: (source, end, before) => {
    (before as Value[]).push(field.read(source, end, field.absent()));
    return before;
  },
});

/** Declares a list of integers, which a peer sends in one field. */
export const integersField = (number: number): Field<readonly number[]> => ({
  ...listField(integerField(number)),
  tag: wireTag(number, WireType.LengthDelimited),
  read: ({ reader }, end) => {
    const values: number[] = [];
    while (reader.pos < end) values.push(Number(reader.int64()));
    return values;
  },
});

/** A message as it is declared. */
export type MessageOf<Declared extends { empty(): unknown }> = ReturnType<Declared["empty"]>;

/** Declares a message by its fields. */
export const declareMessage = <Declared extends Readonly<Record<string, Field<unknown>>>>(
  fields: Declared,
) => {
  type Message = { readonly [Name in keyof Declared]: ReturnType<Declared[Name]["absent"]> };
  const entries = Object.entries(fields);
  const namesByTag = new Map(entries.map(([name, { tag }]) => [tag, name]));
  const empty = () =>
    Object.fromEntries(entries.map(([name, { absent }]) => [name, absent()])) as Message;
  const write = (writer: BinaryWriter, message: Message): BinaryWriter => {
    for (const [name, field] of entries) {
      const value: { length?: number } | null = message[name] ?? null;
      if (value !== null && value !== field.absent() && value.length !== 0)
        field.write(writer, value);
    }
    return writer;
  };
  const read = (source: Source, end: number): Message => {
    const message: Record<string, unknown> = empty();
    eachField(source.reader, end, (tag, valueEnd) => {
      const name = namesByTag.get(tag) ?? "";
      if (name !== "") message[name] = fields[name]?.read(source, valueEnd, message[name]);
    });
    return message as Message;
  };
  return {
    /** The tag of each field, for code that reads or writes the message by hand. */
    tags: mapValues<keyof Declared & string, Field<unknown>, number>(fields, ({ tag }) => tag),
    empty,
    /** Leaves out what is absent. */
    encode: (message: Message): Uint8Array => write(new BinaryWriter(), message).finish(),
    /** Ignores other fields. Throws `ProtobufError` if the bytes are malformed. */
    decode: (bytes: Uint8Array): Message =>
      readWire(bytes, (reader) => read({ bytes, reader }, bytes.length)),
    /** Declares such a message within another one. */
    field: fieldOf(
      WireType.LengthDelimited,
      empty,
      (writer, message) => write(writer.fork(), message).join(),
      read,
    ),
  };
};
