/**
 * Reads a `ForwardRequest` that holds a Frame off the wire (ingest.proto), straight into rows for COPY, with no object for an
 * envelope. It takes only what is plain: known fields, once, in the order of their numbers, as every generator of protobuf writes
 * them, in a frame of which nothing is refused. For all else it gives undefined, and the generated code with `examineFrame` decides:
 * these are the definition, this is a shortcut, and a property test holds it to them.
 */
import type { BufferPool } from "../../kit/buffer-pool.ts";
import { encodePrefix, fixedBytes, RowWriter } from "../store/row-writer.ts";
import {
  attributeOverheadBytes,
  type ExaminedFrame,
  entriesMax,
  envelopeOverheadBytes,
  type FrameLimits,
  heldBytes,
  kindBytesMax,
  queueIdBytes,
  timestampSecondsMax,
  timestampSecondsMin,
} from "./examine-frame.ts";
import { JsonObject } from "./json-object.ts";
import { everySpanNamed } from "./span-names.ts";
import { decodeText, NotPlain, WireReader } from "./wire-reader.ts";

/** What a frame is read with. */
export interface FrameReading {
  /** The caller's. */
  identity: string;
  limits: FrameLimits;
  /** Milliseconds since the Unix epoch. */
  receivedAt: number;
  /** Where the rows come to lie. */
  buffers: BufferPool;
}

/** Reads a frame, or gives undefined when it is not plain. Keeps no part of `message`. */
export const readFrame = (message: Uint8Array, reading: FrameReading): ExaminedFrame | undefined => {
  try {
    return readPlainFrame(new WireReader(message), reading);
  } catch (error) {
    if (error instanceof NotPlain) return undefined;
    throw error;
  }
};

// Tags: a field's number and its type on the wire, a varint or a length and that many bytes.
const varint = (field: number): number => field << 3;
const delimited = (field: number): number => (field << 3) | 2;

const tags = {
  request: { frame: delimited(2) },
  frame: { hostId: delimited(1), queueId: delimited(2), previousSequence: varint(3), envelope: delimited(4) },
  timestamp: { seconds: varint(1), nanos: varint(2) },
  entry: { key: delimited(1), value: delimited(2) },
};
const envelopeSequence = varint(1);
const envelopeKind = delimited(2);
const envelopeObservedAt = delimited(3);
const envelopeSource = delimited(4);
const envelopeAttribute = delimited(5);
const envelopePayload = delimited(6);

const plain = (condition: boolean): void => {
  if (!condition) throw new NotPlain();
};

const readPlainFrame = (wire: WireReader, { identity, limits, receivedAt, buffers }: FrameReading): ExaminedFrame => {
  plain(wire.tag(wire.bytes.length) === tags.request.frame);
  const end = wire.fieldEnd(wire.bytes.length);
  plain(end === wire.bytes.length);

  plain(wire.tag(end) === tags.frame.hostId);
  const host = take(wire, end);
  plain(decodeText(host) === identity && identity.length <= limits.hostIdBytesMax);
  plain(wire.tag(end) === tags.frame.queueId);
  const queueId = Uint8Array.from(take(wire, end));
  plain(queueId.length === queueIdBytes);
  let previousSequence = 0n;
  if (wire.bytes[wire.at] === tags.frame.previousSequence && wire.at < end) {
    wire.at++;
    wire.varint(end);
    previousSequence = sequenceOf(wire.high, wire.low);
  } else wire.high = wire.low = 0;

  plain(wire.high < 2 ** 31);
  const reader = new EnvelopeReader(wire, limits);
  const prefix = encodePrefix(identity, queueId);
  const count = countEnvelopes(wire, end);
  const writer = new RowWriter(buffers, prefix, receivedAt, end - wire.at + count * (prefix.length + fixedBytes));
  try {
    while (wire.at < end) {
      wire.at++;
      reader.read(wire.fieldEnd(end), writer);
    }
  } catch (error) {
    buffers.give(writer.finish().bytes);
    throw error;
  }
  const rows = writer.finish();
  return {
    frame: {
      hostId: identity,
      queueId,
      previousSequence,
      lastSequence: sequenceOf(reader.lastHigh, reader.lastLow),
      rows,
    },
    rejected: [],
    discarded: reader.discarded,
    bytes: heldBytes(reader.heldBytes, rows),
  };
};

const sequenceOf = (high: number, low: number): bigint => (BigInt(high) << 32n) | BigInt(low);

const take = (wire: WireReader, end: number): Uint8Array => {
  const fieldEnd = wire.fieldEnd(end);
  const field = wire.bytes.subarray(wire.at, fieldEnd);
  wire.at = fieldEnd;
  return field;
};

/** The envelopes that are left, which must be all that is left. */
const countEnvelopes = (wire: WireReader, end: number): number => {
  const start = wire.at;
  let count = 0;
  while (wire.at < end) {
    plain(wire.tag(end) === tags.frame.envelope);
    wire.at = wire.fieldEnd(end);
    count++;
  }
  plain(count <= entriesMax);
  wire.at = start;
  return count;
};

/** Reads one envelope after the other of a frame. */
class EnvelopeReader {
  /** The sequence before the next one: the frame's `previous_sequence`, which was read last. */
  lastHigh: number;
  lastLow: number;
  heldBytes = 0;
  readonly discarded: bigint[] = [];
  #entries = 0;
  readonly #wire: WireReader;
  readonly #limits: FrameLimits;
  readonly #attributes = new JsonObject();
  #seconds = 0;
  #nanos = 0;

  constructor(wire: WireReader, limits: FrameLimits) {
    this.#wire = wire;
    this.#limits = limits;
    this.lastHigh = wire.high;
    this.lastLow = wire.low;
  }

  /** Reads the envelope that ends at `end`, and writes its row unless the discard list has it. */
  read(end: number, writer: RowWriter): void {
    const wire = this.#wire;
    let [kindStart, kindEnd, sourceStart, sourceEnd, payloadStart, payloadEnd] = [0, 0, 0, 0, 0, 0];
    let [high, low, tag] = [0, 0, 0];
    let isObserved = false;
    this.#attributes.open();
    while (wire.at < end) {
      const next = wire.tag(end);
      plain(next > tag || next === envelopeAttribute);
      tag = next;
      if (tag === envelopeSequence) {
        wire.varint(end);
        high = wire.high;
        low = wire.low;
        continue;
      }
      const fieldEnd = wire.fieldEnd(end);
      if (tag === envelopeKind) {
        kindStart = wire.at;
        kindEnd = fieldEnd;
      } else if (tag === envelopeSource) {
        sourceStart = wire.at;
        sourceEnd = fieldEnd;
      } else if (tag === envelopePayload) {
        payloadStart = wire.at;
        payloadEnd = fieldEnd;
      } else if (tag === envelopeAttribute) this.#attribute(fieldEnd);
      else if (tag === envelopeObservedAt) {
        isObserved = true;
        this.#timestamp(fieldEnd);
      } else throw new NotPlain();
      wire.at = fieldEnd;
    }
    this.#attributes.close();
    this.#rise(high, low);
    this.#checkKind(kindStart, kindEnd);
    wire.checkText(sourceStart, sourceEnd);
    const payloadBytes = payloadEnd - payloadStart;
    plain(payloadBytes <= this.#limits.payloadBytesMax);
    const textBytes = kindEnd - kindStart + sourceEnd - sourceStart;
    this.heldBytes += payloadBytes + textBytes + envelopeOverheadBytes;
    this.#count();

    const payload = wire.bytes.subarray(payloadStart, payloadEnd);
    if (this.#isDiscarded(kindStart, kindEnd, payload)) return void this.discarded.push(sequenceOf(high, low));
    writer.begin(high, low, textBytes + this.#attributes.length + payloadBytes);
    writer.text(wire.bytes, kindStart, kindEnd);
    writer.moments(isObserved ? this.#seconds : undefined, Math.floor(this.#nanos / 1000));
    writer.text(wire.bytes, sourceStart, sourceEnd);
    writer.attributes(this.#attributes.bytes, this.#attributes.length);
    writer.payload(payload);
  }

  #count(): void {
    this.#entries++;
    plain(this.#entries <= entriesMax);
  }

  #rise(high: number, low: number): void {
    plain(high < 2 ** 31 && (high > this.lastHigh || (high === this.lastHigh && low > this.lastLow)));
    this.lastHigh = high;
    this.lastLow = low;
  }

  #checkKind(start: number, end: number): void {
    plain(end > start && end - start <= kindBytesMax);
    for (let at = start; at < end; at++) {
      const byte = this.#wire.bytes[at] as number;
      // a-z, 0-9 and the underscore
      plain((byte >= 0x61 && byte <= 0x7a) || (byte >= 0x30 && byte <= 0x39) || byte === 0x5f);
    }
  }

  #isDiscarded(kindStart: number, kindEnd: number, payload: Uint8Array): boolean {
    const { discardSpanNames } = this.#limits;
    if (discardSpanNames.size === 0) return false;
    const kind = decodeText(this.#wire.bytes.subarray(kindStart, kindEnd));
    return kind === "otel_span" && everySpanNamed(payload, discardSpanNames);
  }

  #timestamp(end: number): void {
    const wire = this.#wire;
    this.#seconds = this.#nanos = 0;
    let tag = 0;
    while (wire.at < end) {
      const next = wire.tag(end);
      plain(next > tag);
      tag = next;
      wire.varint(end);
      // Signed, and exact as a double within the limits.
      if (tag === tags.timestamp.seconds) this.#seconds = (wire.high | 0) * 2 ** 32 + wire.low;
      else if (tag === tags.timestamp.nanos && wire.high === 0) this.#nanos = wire.low;
      else throw new NotPlain();
    }
    plain(this.#seconds >= Number(timestampSecondsMin) && this.#seconds <= Number(timestampSecondsMax));
    plain(this.#nanos <= 999_999_999);
  }

  #attribute(end: number): void {
    const wire = this.#wire;
    const [name, value] = [
      { start: 0, end: 0 },
      { start: 0, end: 0 },
    ];
    let tag = 0;
    while (wire.at < end) {
      const next = wire.tag(end);
      plain(next > tag);
      tag = next;
      const text = tag === tags.entry.key ? name : value;
      plain(tag === tags.entry.key || tag === tags.entry.value);
      text.end = wire.fieldEnd(end);
      text.start = wire.at;
      wire.checkText(text.start, text.end);
      wire.at = text.end;
    }
    this.#attributes.entry(wire.bytes, name, value);
    this.heldBytes += name.end - name.start + value.end - value.start + attributeOverheadBytes;
    this.#count();
  }
}
