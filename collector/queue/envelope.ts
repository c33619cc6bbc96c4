/*
 * The queue stores a record as it is sent: encoded once, as a field `envelopes` of a `Frame` (docs/protocol.md). The concatenation of
 * stored records is therefore a `Frame` with nothing but envelopes. Decoding is rare.
 */
import { frameMessage } from "#proto/gen/ingest-messages.ts";
import {
  attributeLength,
  type EnvelopeWriter,
  envelopeTags,
  fieldLength,
  numberLength,
  observedAtLength,
  writeAttribute,
  writeNumber,
  writeObservedAt,
  writeText,
} from "./envelope-writer.ts";
import type { NewRecord, RecordBatch, RecordCount } from "./record.ts";

/** A record's overhead beside its text and payload: its sequence, and its share of a row and of a frame. */
export const overheadBytes = 64;

/**
 * Computes a record's size: more than its encoded envelope, and about what SQLite needs for it. Throws `TypeError` if its time is not
 * a finite number.
 */
export const measureRecord = ({
  kind,
  observedAtMs,
  source,
  attributes,
  payload,
}: NewRecord): number => {
  let length =
    fieldLength(Buffer.byteLength(kind)) +
    observedAtLength(observedAtMs) +
    fieldLength(Buffer.byteLength(source)) +
    fieldLength(payload.length);
  for (const name in attributes)
    length += fieldLength(
      attributeLength(Buffer.byteLength(name), Buffer.byteLength(attributes[name] ?? "")),
    );
  return length + overheadBytes;
};

/** Creates a batch of these records. Throws `TypeError` if the time of one is not a finite number. */
export const batchRecords = (records: readonly NewRecord[]): RecordBatch => {
  const sizes = records.map(measureRecord);
  return {
    count: records.length,
    bytes: sizes.reduce((sum, bytes) => sum + bytes, 0),
    counts: countRecords(records),
    sizeOf: (index) => sizes[index] ?? 0,
    recordAt: (index) => records[index] as NewRecord,
    write: (writer, index, sequence) => {
      const record = records[index];
      if (record !== undefined) writeRecord(writer, record, sizes[index] ?? 0, sequence);
    },
  };
};

const countRecords = (records: readonly NewRecord[]): RecordCount[] => {
  const counts: RecordCount[] = [];
  for (const { kind, source, payload } of records) {
    const last = counts.at(-1);
    const isSame = last?.kind === kind && last.source === source;
    const count = isSame
      ? last
      : counts.find((each) => each.kind === kind && each.source === source);
    if (count) {
      count.records += 1;
      count.bytes += payload.length;
    } else counts.push({ kind, source, records: 1, bytes: payload.length });
  }
  return counts;
};

/** Writes the tag and length of an envelope, and its sequence; `size` is that of its record. */
export const beginEnvelope = (writer: EnvelopeWriter, size: number, sequence: number): void => {
  writeNumber(writer, frameMessage.tags.envelopes, numberLength(sequence) + size - overheadBytes);
  writeNumber(writer, envelopeTags.sequence, sequence);
};

const writeRecord = (
  writer: EnvelopeWriter,
  record: NewRecord,
  size: number,
  sequence: number,
): void => {
  const { attributes, payload } = record;
  beginEnvelope(writer, size, sequence);
  writeText(writer, envelopeTags.kind, record.kind);
  writeObservedAt(writer, record.observedAtMs);
  writeText(writer, envelopeTags.source, record.source);
  for (const name in attributes) writeAttribute(writer, name, attributes[name] ?? "");
  writeNumber(writer, envelopeTags.payload, payload.length);
  writer.buffer.set(payload, writer.at);
  writer.at += payload.length;
};

/** Returns the size of the record whose envelope has `length` bytes under `sequence`. */
export const sizeOfEnvelope = (length: number, sequence: number): number => {
  // Its tag and length take two bytes up to 129, three up to 16,386, and so on.
  let headBytes = 2;
  for (let limit = 0x80; length - headBytes >= limit; limit *= 0x80) headBytes += 1;
  return Math.max(0, length - headBytes - numberLength(sequence) + overheadBytes);
};

/** Decodes a stored envelope. Throws if it is malformed. */
export const decodeEnvelope = (bytes: Uint8Array): NewRecord => {
  const envelope = frameMessage.decode(bytes).envelopes.at(-1);
  if (!envelope?.observedAt) throw new TypeError("this is not an envelope of a queue");
  const { sequence: _, observedAt, attributes, ...record } = envelope;
  return {
    ...record,
    observedAtMs: observedAt.seconds * 1000 + Math.round(observedAt.nanos / 1_000_000),
    attributes: Object.fromEntries(attributes.map(({ key, value }) => [key, value])),
  };
};
