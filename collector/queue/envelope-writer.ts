/*
 * The encoding of an envelope, by hand, since it runs for every line of every file: each record is a field `envelopes` of a `Frame`
 * (docs/protocol.md), as the queue stores and the forwarder sends it.
 */

import { envelopeMessage, mapEntryMessage, timestampMessage } from "#proto/gen/ingest-messages.ts";

/** Where the next byte is written. */
export interface EnvelopeWriter {
  buffer: Buffer;
  at: number;
}

/** The tags of an envelope's fields, and of those of an attribute. */
export const { tags: envelopeTags } = envelopeMessage;
export const { tags: attributeTags } = mapEntryMessage;
const { tags: timestampTags } = timestampMessage;

const varintLength = (value: number): number => {
  let length = 1;
  for (let rest = value; rest >= 0x80; rest = Math.floor(rest / 0x80)) length += 1;
  return length;
};

/** Returns the length of a varint field, with its tag. */
export const numberLength = (value: number): number => 1 + varintLength(value);

/** Returns the length of a length-delimited field whose content has `length` bytes, with its tag. */
export const fieldLength = (length: number): number => 1 + varintLength(length) + length;

/** Returns the length of an attribute's content. */
export const attributeLength = (nameBytes: number, valueBytes: number): number =>
  fieldLength(nameBytes) + fieldLength(valueBytes);

/** Writes a varint field, or the tag and length of a length-delimited one. */
export const writeNumber = (writer: EnvelopeWriter, tag: number, value: number): void => {
  const { buffer } = writer;
  let { at } = writer;
  buffer[at++] = tag;
  let rest = value;
  for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) buffer[at++] = (rest % 0x80) | 0x80;
  buffer[at++] = rest;
  writer.at = at;
};

/** Writes a text field. */
export const writeText = (writer: EnvelopeWriter, tag: number, text: string): void => {
  writeNumber(writer, tag, Buffer.byteLength(text));
  writer.at += writer.buffer.write(text, writer.at);
};

/** Writes an attribute. */
export const writeAttribute = (writer: EnvelopeWriter, name: string, value: string): void => {
  writeNumber(
    writer,
    envelopeTags.attributes,
    attributeLength(Buffer.byteLength(name), Buffer.byteLength(value)),
  );
  writeText(writer, attributeTags.key, name);
  writeText(writer, attributeTags.value, value);
};

/** A time as protobuf has it. A time before 1970 becomes 1970. Throws `TypeError` unless it is a finite number. */
const timestampOf = (ms: number): { seconds: number; nanos: number } => {
  if (!Number.isFinite(ms)) throw new TypeError("a record's time is not a number");
  const whole = Math.max(0, Math.floor(ms));
  return { seconds: Math.floor(whole / 1000), nanos: (whole % 1000) * 1_000_000 };
};

/** Returns the length of the field `observed_at`. Throws `TypeError` unless the time is a finite number. */
export const observedAtLength = (ms: number): number => {
  const { seconds, nanos } = timestampOf(ms);
  return fieldLength(numberLength(seconds) + numberLength(nanos));
};

/** Writes the field `observed_at`. */
export const writeObservedAt = (writer: EnvelopeWriter, ms: number): void => {
  const { seconds, nanos } = timestampOf(ms);
  writeNumber(writer, envelopeTags.observedAt, numberLength(seconds) + numberLength(nanos));
  writeNumber(writer, timestampTags.seconds, seconds);
  writeNumber(writer, timestampTags.nanos, nanos);
};
