/**
 * Reads a `ForwardRequest` that holds a Frame off the wire (ingest.proto), straight into rows for COPY, without an object for an
 * envelope. It reads only plain frames: known fields, once, in the order of their numbers, as every protobuf library writes them, and
 * nothing that core rejects. All other messages are for the generated code and `examineFrame`, which define what a frame means; a
 * property test compares the two.
 */
import type { BinaryReader } from "@bufbuild/protobuf/wire";
import { WireType } from "@bufbuild/protobuf/wire";
import type { BufferPool } from "../../../kit/buffer-pool.ts";
import { decodeText, ProtobufError, readLength, readTag, readWire, wireTag } from "../../../proto/wire.ts";
import { encodePrefix, fixedRowBytes, RowWriter } from "../../store/ingest/envelope-rows.ts";
import {
  attributeOverheadBytes,
  type ExaminedFrame,
  entriesMax,
  envelopeOverheadBytes,
  everySpanNamed,
  type FrameLimits,
  heldBytes,
  kindBytesMax,
  queueIdBytes,
  sequenceMax,
  timestampSecondsMax,
  timestampSecondsMin,
} from "../examine-frame.ts";
import { JsonObject } from "./json-object.ts";

/** The context of reading a frame. */
export interface FrameReading {
  /** The caller's. */
  identity: string;
  limits: FrameLimits;
  /** Milliseconds since the Unix epoch. */
  receivedAt: number;
  /** Holds the rows until the frame is released. */
  buffers: BufferPool;
}

class NotPlain extends Error {}

const plain = (condition: boolean): void => {
  if (!condition) throw new NotPlain();
};

/** Reads a frame; returns undefined when it is not plain. Keeps no part of `message`. */
export const readFrame = (message: Uint8Array, reading: FrameReading): ExaminedFrame | undefined => {
  try {
    return readWire(message, (reader) => readPlainFrame(message, reader, reading));
  } catch (error) {
    if (error instanceof NotPlain || error instanceof ProtobufError) return undefined;
    throw error;
  }
};

const varint = (number: number): number => wireTag(number, WireType.Varint);
const delimited = (number: number): number => wireTag(number, WireType.LengthDelimited);

const requestFrame = delimited(2);
const frameHostId = delimited(1);
const frameQueueId = delimited(2);
const framePreviousSequence = varint(3);
const frameEnvelope = delimited(4);
const envelopeSequence = varint(1);
const envelopeKind = delimited(2);
const envelopeObservedAt = delimited(3);
const envelopeSource = delimited(4);
const envelopeAttribute = delimited(5);
const envelopePayload = delimited(6);
const timestampSeconds = varint(1);
const timestampNanos = varint(2);
const attributeName = delimited(1);
const attributeValue = delimited(2);

const secondsMin = Number(timestampSecondsMin);
const secondsMax = Number(timestampSecondsMax);

const readPlainFrame = (
  message: Uint8Array,
  reader: BinaryReader,
  { identity, limits, receivedAt, buffers }: FrameReading,
): ExaminedFrame => {
  plain(readTag(reader, message.length) === requestFrame);
  const end = readLength(reader, message.length);
  plain(end === message.length);

  plain(readTag(reader, end) === frameHostId);
  plain(decodeText(readBytes(message, reader, end)) === identity && identity.length <= limits.hostIdBytesMax);
  plain(readTag(reader, end) === frameQueueId);
  const queueId = Uint8Array.from(readBytes(message, reader, end));
  plain(queueId.length === queueIdBytes);
  let previousSequence = 0n;
  if (reader.pos < end && message[reader.pos] === framePreviousSequence) {
    reader.pos++;
    previousSequence = readSequence(reader, end);
  }

  const prefix = encodePrefix(identity, queueId);
  const rows = countEnvelopes(reader, end);
  const bytes = end - reader.pos + rows * (prefix.length + fixedRowBytes);
  const envelopes = new EnvelopeReader(message, reader, limits, previousSequence);
  const writer = new RowWriter(buffers, { prefix, receivedAt, rows, bytes });
  try {
    while (reader.pos < end) {
      readTag(reader, end);
      envelopes.read(readLength(reader, end), writer);
    }
  } catch (error) {
    buffers.release(writer.finish().bytes);
    throw error;
  }
  const encoded = writer.finish();
  return {
    frame: { hostId: identity, queueId, previousSequence, lastSequence: envelopes.last, rows: encoded },
    rejected: [],
    discarded: envelopes.discarded,
    bytes: heldBytes(envelopes.heldBytes, encoded),
    release: () => buffers.release(encoded.bytes),
  };
};

const readBytes = (message: Uint8Array, reader: BinaryReader, end: number): Uint8Array => {
  const fieldEnd = readLength(reader, end);
  const field = message.subarray(reader.pos, fieldEnd);
  reader.pos = fieldEnd;
  return field;
};

const readSequence = (reader: BinaryReader, end: number): bigint => {
  // A string only where there is no BigInt.
  const sequence = reader.uint64() as bigint;
  plain(reader.pos <= end && sequence <= sequenceMax);
  return sequence;
};

/** Counts the envelopes, which must be all that is left of the frame. */
const countEnvelopes = (reader: BinaryReader, end: number): number => {
  const start = reader.pos;
  let count = 0;
  while (reader.pos < end) {
    plain(readTag(reader, end) === frameEnvelope);
    reader.pos = readLength(reader, end);
    count++;
  }
  plain(count <= entriesMax);
  reader.pos = start;
  return count;
};

/** Reads the envelopes of a frame, one after the other. */
class EnvelopeReader {
  /** The sequence of the last envelope read; at first, the frame's `previous_sequence`. */
  last: bigint;
  heldBytes = 0;
  readonly discarded: bigint[] = [];
  #entries = 0;
  readonly #message: Uint8Array;
  readonly #reader: BinaryReader;
  readonly #limits: FrameLimits;
  readonly #attributes = new JsonObject();
  #seconds = 0;
  #nanos = 0;

  constructor(message: Uint8Array, reader: BinaryReader, limits: FrameLimits, previousSequence: bigint) {
    this.#message = message;
    this.#reader = reader;
    this.#limits = limits;
    this.last = previousSequence;
  }

  /** Reads the envelope that ends at `end`, and writes its row unless its spans are on the discard list. */
  read(end: number, writer: RowWriter): void {
    const reader = this.#reader;
    let [kindStart, kindEnd, sourceStart, sourceEnd, payloadStart, payloadEnd] = [0, 0, 0, 0, 0, 0];
    let sequence = 0n;
    let tag = 0;
    let isObserved = false;
    this.#attributes.open();
    while (reader.pos < end) {
      const next = readTag(reader, end);
      plain(next > tag || next === envelopeAttribute);
      tag = next;
      if (tag === envelopeSequence) {
        sequence = readSequence(reader, end);
        continue;
      }
      const fieldEnd = readLength(reader, end);
      if (tag === envelopeKind) {
        kindStart = reader.pos;
        kindEnd = fieldEnd;
      } else if (tag === envelopeSource) {
        sourceStart = reader.pos;
        sourceEnd = fieldEnd;
      } else if (tag === envelopePayload) {
        payloadStart = reader.pos;
        payloadEnd = fieldEnd;
      } else if (tag === envelopeAttribute) this.#attribute(fieldEnd);
      else if (tag === envelopeObservedAt) {
        isObserved = true;
        this.#timestamp(fieldEnd);
      } else throw new NotPlain();
      reader.pos = fieldEnd;
    }
    this.#attributes.close();
    plain(sequence > this.last);
    this.last = sequence;
    this.#checkKind(kindStart, kindEnd);
    this.#checkText(sourceStart, sourceEnd);
    const payloadBytes = payloadEnd - payloadStart;
    plain(payloadBytes <= this.#limits.payloadBytesMax);
    const textBytes = kindEnd - kindStart + sourceEnd - sourceStart;
    this.heldBytes += payloadBytes + textBytes + envelopeOverheadBytes;
    this.#count();

    const payload = this.#message.subarray(payloadStart, payloadEnd);
    if (this.#isDiscarded(kindStart, kindEnd, payload)) return void this.discarded.push(sequence);
    writer.begin(sequence, textBytes + this.#attributes.length + payloadBytes);
    writer.text(this.#message, kindStart, kindEnd);
    writer.timestamps(isObserved ? this.#seconds : undefined, Math.floor(this.#nanos / 1000));
    writer.text(this.#message, sourceStart, sourceEnd);
    writer.attributes(this.#attributes.bytes, this.#attributes.length);
    writer.payload(payload);
  }

  #count(): void {
    this.#entries++;
    plain(this.#entries <= entriesMax);
  }

  #checkKind(start: number, end: number): void {
    plain(end > start && end - start <= kindBytesMax);
    for (let at = start; at < end; at++) {
      const byte = this.#message[at] as number;
      // a-z, 0-9 and the underscore
      plain((byte >= 0x61 && byte <= 0x7a) || (byte >= 0x30 && byte <= 0x39) || byte === 0x5f);
    }
  }

  /** Text that PostgreSQL stores: UTF-8 without NUL. */
  #checkText(start: number, end: number): void {
    for (let at = start; at < end; at++) {
      const byte = this.#message[at] as number;
      plain(byte !== 0);
      if (byte < 0x80) continue;
      const rest = this.#message.subarray(at, end);
      decodeText(rest);
      // Within UTF-8 a byte of 0 is the character NUL, and nothing else.
      plain(!rest.includes(0));
      return;
    }
  }

  #isDiscarded(kindStart: number, kindEnd: number, payload: Uint8Array): boolean {
    const { discardSpanNames } = this.#limits;
    if (discardSpanNames.size === 0) return false;
    const kind = decodeText(this.#message.subarray(kindStart, kindEnd));
    return kind === "otel_span" && everySpanNamed(payload, discardSpanNames);
  }

  #timestamp(end: number): void {
    const reader = this.#reader;
    this.#seconds = this.#nanos = 0;
    let tag = 0;
    while (reader.pos < end) {
      const next = readTag(reader, end);
      plain(next > tag);
      tag = next;
      if (tag === timestampSeconds) this.#seconds = Number(reader.int64());
      else if (tag === timestampNanos) this.#nanos = reader.int32();
      else throw new NotPlain();
    }
    plain(reader.pos === end);
    plain(this.#seconds >= secondsMin && this.#seconds <= secondsMax);
    plain(this.#nanos >= 0 && this.#nanos <= 999_999_999);
  }

  #attribute(end: number): void {
    const reader = this.#reader;
    let [nameStart, nameEnd, valueStart, valueEnd] = [0, 0, 0, 0];
    let tag = 0;
    while (reader.pos < end) {
      const next = readTag(reader, end);
      plain(next > tag);
      tag = next;
      const textEnd = readLength(reader, end);
      if (tag === attributeName) {
        nameStart = reader.pos;
        nameEnd = textEnd;
      } else if (tag === attributeValue) {
        valueStart = reader.pos;
        valueEnd = textEnd;
      } else throw new NotPlain();
      this.#checkText(reader.pos, textEnd);
      reader.pos = textEnd;
    }
    this.#attributes.entry(this.#message, nameStart, nameEnd, valueStart, valueEnd);
    this.heldBytes += nameEnd - nameStart + valueEnd - valueStart + attributeOverheadBytes;
    this.#count();
  }
}
