/*
 * The queue stores a record as it is sent: encoded once, as a field `envelopes` of a `Frame` (docs/protocol.md). The concatenation of
 * stored records is therefore a `Frame` with nothing but envelopes. Encoding is by hand, since it runs for every line of every file;
 * decoding is rare and is the library's.
 */
import { fromBinary } from "@bufbuild/protobuf";
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { FrameSchema } from "../../proto/gen/svc/ingest/v1/ingest_pb.js";
import type { NewRecord } from "./record.ts";

/** A record and its size against the queue's cap. */
export interface MeasuredRecord {
  readonly record: NewRecord;
  readonly bytes: number;
}

/** A record's overhead beside its text and payload: its sequence, and its share of a row and of a frame. */
const overheadBytes = 64;

/**
 * Computes a record's size: more than its encoded envelope, and about what SQLite needs for it. Throws `TypeError` if its time is not
 * a finite number.
 */
export const measureRecord = (record: NewRecord): MeasuredRecord => {
  const { kind, source, attributes, payload } = record;
  const { seconds, nanos } = timestampOf(record);
  let length =
    fieldLength(Buffer.byteLength(kind)) +
    fieldLength(timestampLength(seconds, nanos)) +
    fieldLength(Buffer.byteLength(source)) +
    fieldLength(payload.length);
  for (const name in attributes)
    length += fieldLength(entryLength(Buffer.byteLength(name), Buffer.byteLength(attributes[name] ?? "")));
  return { record, bytes: length + overheadBytes };
};

/**
 * Encodes the records under consecutive sequences from `firstSequence`; `ends` has the offset at which each one ends. If they fit,
 * writes them into `scratch`: they are then valid until its next use.
 */
export const encodeRecords = (
  records: readonly MeasuredRecord[],
  firstSequence: number,
  scratch: Buffer = Buffer.alloc(0),
): { envelopes: Uint8Array; ends: number[] } => {
  let length = 0;
  const ends = records.map((measured, index) => {
    length += fieldLength(bodyLength(measured, firstSequence + index));
    return length;
  });
  const buffer = length <= scratch.length ? scratch.subarray(0, length) : Buffer.allocUnsafeSlow(length);
  const writer = { buffer, at: 0 };
  for (const [index, measured] of records.entries()) writeEnvelope(writer, measured, firstSequence + index);
  return { envelopes: buffer, ends };
};

/** Returns what `measureRecord` returned for the record whose envelope has `length` bytes under `sequence`. */
export const bytesOfEnvelope = (length: number, sequence: number): number => {
  let lengthBytes = 1;
  while (varintLength(length - 1 - lengthBytes) > lengthBytes) lengthBytes += 1;
  return Math.max(0, length - 1 - lengthBytes - numberLength(sequence) + overheadBytes);
};

/** Decodes a stored envelope. Throws if it is malformed. */
export const decodeEnvelope = (envelope: Uint8Array): NewRecord => {
  const [decoded] = fromBinary(FrameSchema, envelope).envelopes;
  if (decoded?.observedAt === undefined) throw new TypeError("this is not an envelope of a queue");
  const { kind, observedAt, source, attributes, payload } = decoded;
  return { kind, observedAtMs: timestampMs(observedAt), source, attributes, payload };
};

/** The tag of each field: its number and wire type, 0 for a varint and 2 for length-delimited. */
const field = {
  envelope: 0x22,
  sequence: 0x08,
  kind: 0x12,
  observedAt: 0x1a,
  seconds: 0x08,
  nanos: 0x10,
  source: 0x22,
  attribute: 0x2a,
  attributeName: 0x0a,
  attributeValue: 0x12,
  payload: 0x32,
} as const;

/** A time before 1970 becomes 1970. */
const timestampOf = ({ observedAtMs }: NewRecord): { seconds: number; nanos: number } => {
  if (!Number.isFinite(observedAtMs)) throw new TypeError("a record's time is not a number");
  const ms = Math.max(0, Math.floor(observedAtMs));
  return { seconds: Math.floor(ms / 1000), nanos: (ms % 1000) * 1_000_000 };
};

const varintLength = (value: number): number => {
  let length = 1;
  for (let rest = value; rest >= 0x80; rest = Math.floor(rest / 0x80)) length += 1;
  return length;
};

/** The tag is included here and in the lengths below. */
const numberLength = (value: number): number => 1 + varintLength(value);
const fieldLength = (length: number): number => 1 + varintLength(length) + length;
const timestampLength = (seconds: number, nanos: number): number => numberLength(seconds) + numberLength(nanos);
const entryLength = (name: number, value: number): number => fieldLength(name) + fieldLength(value);
const bodyLength = ({ bytes }: MeasuredRecord, sequence: number): number =>
  numberLength(sequence) + bytes - overheadBytes;

interface Writer {
  readonly buffer: Buffer;
  at: number;
}

const writeEnvelope = (writer: Writer, measured: MeasuredRecord, sequence: number): void => {
  const { record } = measured;
  const { attributes, payload } = record;
  const { seconds, nanos } = timestampOf(record);
  writeNumber(writer, field.envelope, bodyLength(measured, sequence));
  writeNumber(writer, field.sequence, sequence);
  writeText(writer, field.kind, record.kind);
  writeNumber(writer, field.observedAt, timestampLength(seconds, nanos));
  writeNumber(writer, field.seconds, seconds);
  writeNumber(writer, field.nanos, nanos);
  writeText(writer, field.source, record.source);
  for (const name in attributes) {
    const value = attributes[name] ?? "";
    writeNumber(writer, field.attribute, entryLength(Buffer.byteLength(name), Buffer.byteLength(value)));
    writeText(writer, field.attributeName, name);
    writeText(writer, field.attributeValue, value);
  }
  writeNumber(writer, field.payload, payload.length);
  writer.buffer.set(payload, writer.at);
  writer.at += payload.length;
};

/** Writes a varint field, or the tag and length of a length-delimited one. */
const writeNumber = (writer: Writer, tag: number, value: number): void => {
  const { buffer } = writer;
  buffer[writer.at++] = tag;
  let rest = value;
  for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) buffer[writer.at++] = (rest % 0x80) | 0x80;
  buffer[writer.at++] = rest;
};

const writeText = (writer: Writer, tag: number, text: string): void => {
  writeNumber(writer, tag, Buffer.byteLength(text));
  writer.at += writer.buffer.write(text, writer.at);
};
