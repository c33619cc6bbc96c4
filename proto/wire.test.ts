import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { WireType } from "@bufbuild/protobuf/wire";
import fc from "fast-check";
import { expect, it } from "vitest";
import { EnvelopeSchema } from "./gen/svc/ingest/v1/ingest_pb.js";
import { decodeText, eachField, eachValue, ProtobufError, readWire, wireTag } from "./wire.ts";

const envelope = fc
  .record({
    sequence: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
    kind: fc.string({ maxLength: 8 }),
    observedAt: fc.record({
      seconds: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
      nanos: fc.integer(),
    }),
    attributes: fc.dictionary(fc.string({ maxLength: 4 }), fc.string({ maxLength: 4 }), {
      maxKeys: 3,
    }),
    payload: fc.uint8Array({ maxLength: 200 }),
  })
  .map((init) => toBinary(EnvelopeSchema, create(EnvelopeSchema, init)));

/** Cuts a message into its fields, tags included. */
const fieldsOf = (bytes: Uint8Array) =>
  readWire(bytes, (reader) => {
    const fields: Uint8Array[] = [];
    let start = 0;
    eachField(reader, bytes.length, (_, end) => {
      fields.push(bytes.subarray(start, end));
      start = end;
    });
    return fields;
  });

const valuesOf = (bytes: Uint8Array, number: number) =>
  readWire(bytes, (reader) => {
    const values: Uint8Array[] = [];
    eachValue(reader, bytes.length, number, (end) => values.push(bytes.subarray(reader.pos, end)));
    return values;
  });

it("visits every field of a message, each of which decodes alone", () => {
  fc.assert(
    fc.property(envelope, (bytes) => {
      const fields = fieldsOf(bytes);
      expect(Buffer.concat(fields)).toEqual(Buffer.from(bytes));
      for (const field of fields) fromBinary(EnvelopeSchema, field);
      const { payload, kind } = fromBinary(EnvelopeSchema, bytes);
      expect(Buffer.concat(valuesOf(bytes, 6))).toEqual(Buffer.from(payload));
      expect(valuesOf(bytes, 2).map(decodeText).join()).toBe(kind);
    }),
  );
});

it("throws ProtobufError, and nothing else, on any bytes", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 40 }), (bytes) => {
      try {
        fieldsOf(bytes);
      } catch (error) {
        expect(error).toBeInstanceOf(ProtobufError);
      }
    }),
  );
});

it.each([
  ["a varint that is cut off", [0x08, 0x80]],
  ["a varint of more than ten bytes", [0x08, ...Array(10).fill(0x80), 0]],
  ["a length beyond the message", [0x12, 3, 1, 2]],
  ["a fixed-width value that is cut off", [wireTag(1, WireType.Bit64), 0, 0, 0]],
  ["a field number of 0", [0x02, 0]],
  ["a group", [wireTag(1, WireType.StartGroup), wireTag(1, WireType.EndGroup)]],
  ["a tag of more than 32 bits", [0xa5, 0x80, 0x82, 0x80, 0x6b, 0, 0, 0, 0]],
])("rejects %s", (_, bytes) => {
  expect(() => fieldsOf(Uint8Array.from(bytes))).toThrow(ProtobufError);
});

it("rejects a nested message that ends beyond its parent", () => {
  const bytes = Uint8Array.of(0x0a, 2, 0x12, 3, 1, 2, 3);
  expect(() =>
    readWire(bytes, (reader) =>
      eachValue(reader, bytes.length, 1, (end) => eachValue(reader, end, 2, () => undefined)),
    ),
  ).toThrow(ProtobufError);
});

it("passes on the errors of its callback", () => {
  const failing = () => {
    throw new TypeError("a bug");
  };
  expect(() => readWire(new Uint8Array(), failing)).toThrow(TypeError);
});
