import type { BinaryReader } from "@bufbuild/protobuf/wire";
import { decodeText, eachField, eachValue, ProtobufError, readWire, wireTag } from "#proto/wire.ts";

/** The resource attribute with the identity of the certificate that sent the telemetry. */
export const hostIdentityKey = "svc.host.identity";

const lengthDelimited = 2;
const resourceTag = wireTag(1, lengthDelimited);

/**
 * Returns a request of OTLP in which every resource has the attribute `svc.host.identity` with this value alone, whatever it claimed. All
 * other bytes stay as they are. Throws `ProtobufError` for a payload whose resources cannot be read.
 */
export const attestResources = (payload: Uint8Array, identity: string): Uint8Array =>
  readWire(payload, (reader) => {
    const attribute = encodeAttribute(identity);
    const parts: Uint8Array[] = [];
    eachPart(reader, payload, payload.length, (part, tag, end) => {
      if (tag >>> 3 !== 1) return void parts.push(part);
      const resource: Uint8Array[] = [];
      const rest: Uint8Array[] = [];
      eachPart(reader, payload, end, (field, inner, innerEnd) => {
        if (inner >>> 3 !== 1) return void rest.push(field);
        // A field that comes twice is one message with the fields of both.
        eachPart(reader, payload, innerEnd, (each, attributeTag, attributeEnd) => {
          if (attributeTag >>> 3 === 1 && isClaim(reader, payload, attributeEnd)) return;
          resource.push(each);
        });
      });
      parts.push(...encodeField([...encodeField([...resource, attribute]), ...rest]));
    });
    return Buffer.concat(parts);
  });

/** Calls `visit` with each field as it is, its tag, and the end of its value; the reader is where that begins. Field 1 must be a message. */
const eachPart = (
  reader: BinaryReader,
  bytes: Uint8Array,
  end: number,
  visit: (part: Uint8Array, tag: number, valueEnd: number) => void,
): void => {
  let start = reader.pos;
  eachField(reader, end, (tag, valueEnd) => {
    if (tag >>> 3 === 1 && tag !== resourceTag)
      throw new ProtobufError("a field has another type than the schema says");
    visit(bytes.subarray(start, valueEnd), tag, valueEnd);
    start = valueEnd;
  });
};

/** Whether a `KeyValue` has the key: the last one counts, and readers differ, so any does. */
const isClaim = (reader: BinaryReader, bytes: Uint8Array, end: number): boolean => {
  let isFound = false;
  eachValue(reader, end, 1, (keyEnd) => {
    isFound ||= decodeText(bytes.subarray(reader.pos, keyEnd)) === hostIdentityKey;
  });
  return isFound;
};

/** Field 1 of these bytes, which is where each of the messages has the next one. */
const encodeField = (parts: readonly Uint8Array[]): Uint8Array[] => [
  Uint8Array.of(resourceTag, ...encodeVarint(parts.reduce((sum, { length }) => sum + length, 0))),
  ...parts,
];

const encodeVarint = (value: number): number[] => {
  const bytes: number[] = [];
  let rest = value;
  for (; rest > 127; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 128);
  return [...bytes, rest];
};

const encoder = new TextEncoder();

/** `attributes`, field 1 of a resource: `KeyValue` with 1 the key and 2 the value, of which 1 is a string. */
const encodeAttribute = (value: string): Uint8Array => {
  const text = encodeField([encoder.encode(value)]);
  const bytes = text.reduce((sum, { length }) => sum + length, 0);
  const valueField = [Uint8Array.of(wireTag(2, lengthDelimited), ...encodeVarint(bytes)), ...text];
  return Buffer.concat(
    encodeField([...encodeField([encoder.encode(hostIdentityKey)]), ...valueField]),
  );
};
