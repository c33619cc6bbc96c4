import { isUtf8 } from "node:buffer";
import { type BinaryReader, BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { lengthOf } from "#kit/bytes.ts";
import {
  decodeText,
  eachField,
  eachValue,
  ProtobufError,
  readWire,
  wireHead,
  wireTag,
} from "#proto/wire.ts";
import type { ExportSignal } from "../config/export-config.ts";
import type { StoredEnvelope } from "../store/ingest/stored-envelope.ts";

/** The kinds whose payload is an OTLP request (docs/protocol.md). Lines, and unknown kinds, become log records. */
export const otlpSignals: ReadonlyMap<string, ExportSignal> = new Map([
  ["otel_span", "traces"],
  ["otel_log", "logs"],
  ["otel_metric", "metrics"],
]);

/** The resource attribute with the identity of the certificate that sent the telemetry. */
export const hostIdentityKey = "svc.host.identity";

const resourceTag = wireTag(1, WireType.LengthDelimited);

/**
 * Returns an OTLP request in which the attribute `svc.host.identity` of every resource has only this value, whatever the sender claimed. Keeps
 * all other bytes. Throws `ProtobufError` for a payload whose resources cannot be read.
 */
export const attestResources = (payload: Uint8Array, identity: string): Uint8Array =>
  readWire(payload, (reader) => {
    const attribute = encodeIdentity(identity);
    const parts: Uint8Array[] = [];
    eachPart(reader, payload, payload.length, (part, tag, end) => {
      if (tag >>> 3 !== 1) return void parts.push(part);
      const resource: Uint8Array[] = [];
      const otherFields: Uint8Array[] = [];
      eachPart(reader, payload, end, (field, fieldTag, fieldEnd) => {
        if (fieldTag >>> 3 !== 1) return void otherFields.push(field);
        // A field that comes twice is one message with the fields of both.
        eachPart(reader, payload, fieldEnd, (claimed, attributeTag, attributeEnd) => {
          if (attributeTag >>> 3 === 1 && isClaim(reader, payload, attributeEnd)) return;
          resource.push(claimed);
        });
      });
      parts.push(...encodeField([...encodeField([...resource, attribute]), ...otherFields]));
    });
    return Buffer.concat(parts);
  });

/** Calls `visit` with the bytes of each field, its tag, and the end of its value, with the reader at its beginning. Field 1 must be a message. */
const eachPart = (
  reader: BinaryReader,
  bytes: Uint8Array,
  end: number,
  visit: (part: Uint8Array, tag: number, valueEnd: number) => void,
) => {
  let start = reader.pos;
  eachField(reader, end, (tag, valueEnd) => {
    if (tag >>> 3 === 1 && tag !== resourceTag)
      throw new ProtobufError("a field has another type than the schema says");
    visit(bytes.subarray(start, valueEnd), tag, valueEnd);
    start = valueEnd;
  });
};

/** Reports whether any key of a `KeyValue` claims the identity. Of several keys the last one counts, but not for every reader. */
const isClaim = (reader: BinaryReader, bytes: Uint8Array, end: number) => {
  let isFound = false;
  eachValue(reader, end, 1, (keyEnd) => {
    isFound ||= decodeText(bytes.subarray(reader.pos, keyEnd)) === hostIdentityKey;
  });
  return isFound;
};

/** Encodes field 1, which contains the next message in each of these messages. */
const encodeField = (parts: readonly Uint8Array[]): Uint8Array[] => [
  wireHead(resourceTag, lengthOf(parts)),
  ...parts,
];

/**
 * Encodes a request by concatenation: protobuf appends repeated fields, so concatenated OTLP requests are one with the resources of all. With
 * `isAttested`, each resource has the identity of its host, and a malformed payload throws `ProtobufError`. A `writer` of several requests
 * keeps its buffer, which grows with the largest of them.
 */
export const encodeRequest = (
  { envelopes }: { envelopes: readonly StoredEnvelope[] },
  isAttested: boolean,
  writer = new BinaryWriter(),
): Uint8Array => {
  const parts: Uint8Array[] = [];
  let lines: StoredEnvelope[] = [];
  const endLines = () => {
    if (lines.length > 0) parts.push(encodeLogs(lines, writer));
    lines = [];
  };
  for (const envelope of envelopes) {
    if (!otlpSignals.has(envelope.kind)) lines.push(envelope);
    else {
      endLines();
      parts.push(
        isAttested ? attestResources(envelope.payload, envelope.hostId) : envelope.payload,
      );
    }
  }
  endLines();
  const [only] = parts;
  return parts.length === 1 && only ? only : Buffer.concat(parts);
};

/**
 * Encodes envelopes that are not OTLP requests, mostly lines of files, as an `ExportLogsServiceRequest` with the names of OpenTelemetry's semantic
 * conventions (docs/export.md). Writes the bytes directly, because an object for each of thousands of lines would cost more.
 */
export const encodeLogs = (
  envelopes: readonly StoredEnvelope[],
  request = new BinaryWriter(),
): Uint8Array => {
  const names: RecordNames = {
    attributesOf: rememberLast(encodeAttributes),
    hexOf: rememberLast((queueId: Uint8Array) => queueId.toHex()),
  };
  let at = 0;
  while (at < envelopes.length) {
    const first = envelopes[at] as StoredEnvelope;
    let end = at + 1;
    while (end < envelopes.length && isSameOrigin(first, envelopes[end] as StoredEnvelope)) end++;
    writeResourceLogs(request, envelopes.slice(at, end), names);
    at = end;
  }
  return request.finish();
};

/** The encoded names that records of one block share. */
interface RecordNames {
  /** Returns the encoded attributes of a record. */
  attributesOf(attributes: StoredEnvelope["attributes"]): Uint8Array;
  hexOf(queueId: Uint8Array): string;
}

/** Returns the same result for the same argument as in the call before. */
const rememberLast = <Argument, Result>(resultOf: (argument: Argument) => Result) => {
  let last: { argument: Argument; result: Result } | undefined;
  return (argument: Argument): Result => {
    if (last?.argument !== argument) last = { argument, result: resultOf(argument) };
    return last.result;
  };
};

const isSameOrigin = (one: StoredEnvelope, other: StoredEnvelope) =>
  one.hostId === other.hostId && one.source === other.source;

const writeMessage = (writer: BinaryWriter, field: number, write: () => void) => {
  writer.tag(field, WireType.LengthDelimited).fork();
  write();
  writer.join();
};

const writeText = (writer: BinaryWriter, field: number, value: string) => {
  writer.tag(field, WireType.LengthDelimited).string(value);
};

/** Writes a `KeyValue`: 1 is the key and 2 the value, of which 1 is a string. */
const writeAttribute = (writer: BinaryWriter, field: number, key: string, value: string) =>
  writeMessage(writer, field, () => {
    writeText(writer, 1, key);
    writeMessage(writer, 2, () => writeText(writer, 1, value));
  });

/** Encodes the identity as an attribute, field 1 of a resource. */
const encodeIdentity = (identity: string): Uint8Array => {
  const writer = new BinaryWriter();
  writeAttribute(writer, 1, hostIdentityKey, identity);
  return writer.finish();
};

/** `ResourceLogs`: 1 the resource, 2 the scopes; of a scope 1 its name and version, 2 the records. */
const writeResourceLogs = (
  writer: BinaryWriter,
  envelopes: readonly StoredEnvelope[],
  names: RecordNames,
) => {
  const [{ hostId, source }] = envelopes as [StoredEnvelope];
  writeMessage(writer, 1, () => {
    writeMessage(writer, 1, () => {
      writeAttribute(writer, 1, "host.name", hostNameOf(hostId));
      writeAttribute(writer, 1, "service.instance.id", hostId);
      writeAttribute(writer, 1, hostIdentityKey, hostId);
    });
    writeMessage(writer, 2, () => {
      writeMessage(writer, 1, () => writeText(writer, 1, source));
      for (const envelope of envelopes) writeRecord(writer, envelope, names);
    });
  });
};

/** The device, the last part of an identity. */
const hostNameOf = (hostId: string) => hostId.slice(hostId.lastIndexOf("/") + 1);

const encodeAttributes = (attributes: StoredEnvelope["attributes"]): Uint8Array => {
  const writer = new BinaryWriter();
  for (const [key, value] of Object.entries(attributes)) {
    if (key !== "file.path") writeAttribute(writer, 6, key, value);
    else {
      writeAttribute(writer, 6, "log.file.path", value);
      writeAttribute(writer, 6, "log.file.name", value.slice(value.lastIndexOf("/") + 1));
    }
  }
  return writer.finish();
};

const writeRecord = (
  writer: BinaryWriter,
  envelope: StoredEnvelope,
  { attributesOf, hexOf }: RecordNames,
) =>
  writeMessage(writer, 2, () => {
    const { kind, observedAt, receivedAt, attributes, payload, queueId, sequence } = envelope;
    writeBody(writer, payload);
    writer.raw(attributesOf(attributes));
    if (kind !== "log_line") writeAttribute(writer, 6, "svc.kind", kind);
    // Records with one uid are duplicates, which a backend may remove.
    writeAttribute(writer, 6, "log.record.uid", `${hexOf(queueId)}-${sequence}`);
    writer
      .tag(11, WireType.Bit64)
      .fixed64(isTime(observedAt) ? observedAt * 1000n : receivedAt * 1000n);
  });

const microsecondsMax = 2n ** 64n / 1000n;

/** Reports whether OTLP can express a time, in nanoseconds since 1970: a host may send any from year 1 to 9999. */
const isTime = (microseconds: bigint | null): microseconds is bigint =>
  microseconds !== null && microseconds >= 0n && microseconds < microsecondsMax;

/** Writes a body as a string if it is UTF-8, which protobuf requires of strings, else as bytes. */
const writeBody = (writer: BinaryWriter, payload: Uint8Array) =>
  writeMessage(writer, 5, () =>
    writer.tag(isUtf8(payload) ? 1 : 7, WireType.LengthDelimited).bytes(payload),
  );
