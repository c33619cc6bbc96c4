/**
 * Reads encoded envelopes off the wire without an object for an envelope, and checks them as `examineFrame` does. It reads only plain
 * envelopes: known fields, once, in the order of their numbers, as every protobuf library writes them, and nothing that core rejects.
 */
import {
  envelopeMessage,
  frameMessage,
  mapEntryMessage,
  timestampMessage,
} from "#proto/gen/ingest-messages.ts";
import { entriesMax } from "#proto/limits/message-limits.ts";
import { decodeText, ProtobufError } from "#proto/wire.ts";
import type { FrameToCommit } from "../store/ingest/decide-batch.ts";
import { type EnvelopeRun, type KindCount, widen } from "../store/ingest/envelope-run.ts";
import {
  attributeOverheadBytes,
  type ExaminedFrame,
  envelopeOverheadBytes,
  everySpanNamed,
  type FrameLimits,
  heldBytes,
  kindBytesMax,
  timestampSecondsMax,
  timestampSecondsMin,
} from "./examine-frame.ts";

class NotPlain extends Error {}

/** The envelopes that were read. */
interface ScannedEnvelopes {
  run: EnvelopeRun;
  discarded: readonly bigint[];
  /** The last sequence, discarded or not; that before the first without one. */
  last: bigint;
  /** What decoding them would hold in memory. */
  heldBytes: number;
}

const envelopeTag = frameMessage.tags.envelopes;
const {
  sequence: sequenceTag,
  kind: kindTag,
  observedAt: observedAtTag,
  source: sourceTag,
  attributes: attributeTag,
  payload: payloadTag,
} = envelopeMessage.tags;
const { key: nameTag, value: valueTag } = mapEntryMessage.tags;
const { seconds: secondsTag, nanos: nanosTag } = timestampMessage.tags;

const secondsMin = Number(timestampSecondsMin);
const secondsMax = Number(timestampSecondsMax);

/** Reads envelopes, which are fields `envelopes`, of a queue whose last one was `previous`; returns undefined unless all are plain. */
export const scanEnvelopes = (
  bytes: Uint8Array,
  limits: FrameLimits,
  previous: bigint,
): ScannedEnvelopes | undefined => {
  if (previous > Number.MAX_SAFE_INTEGER) return undefined;
  const reader = new EnvelopeScanner(bytes, limits, Number(previous));
  try {
    while (reader.at < bytes.length) reader.readEnvelope();
  } catch (error) {
    if (error instanceof NotPlain || error instanceof ProtobufError) return undefined;
    throw error;
  }
  return reader.finish();
};

/** Returns the frame of envelopes that were read: none of them is rejected. */
export const frameOf = (
  { run, discarded, last, heldBytes: decodedBytes }: ScannedEnvelopes,
  head: Pick<FrameToCommit, "hostId" | "queueId" | "previousSequence" | "receivedAt">,
): ExaminedFrame => ({
  frame: { ...head, lastSequence: last, run },
  rejected: [],
  discarded,
  bytes: heldBytes(decodedBytes, run),
});

/** A kind that an envelope had, and its count. */
interface KnownKind extends KindCount {
  name: Uint8Array;
}

class EnvelopeScanner {
  at = 0;
  readonly #bytes: Uint8Array;
  readonly #limits: FrameLimits;
  readonly #kinds: KnownKind[] = [];
  readonly #discarded: bigint[] = [];
  /** Where the parts without discarded envelopes begin and end; their last one ends at `at`. */
  readonly #kept: number[] = [0];
  #first = 0;
  #lastStored = 0;
  #last: number;
  #count = 0;
  #entries = 0;
  #payloadBytes = 0;
  #heldBytes = 0;
  #observed: EnvelopeRun["observed"];
  #seconds = 0;

  constructor(bytes: Uint8Array, limits: FrameLimits, previous: number) {
    this.#bytes = bytes;
    this.#limits = limits;
    this.#last = previous;
  }

  readEnvelope(): void {
    const start = this.at;
    plain(this.#bytes[this.at++] === envelopeTag);
    const end = this.#length(this.#bytes.length);
    this.#read(start, end);
    this.at = end;
  }

  finish(): ScannedEnvelopes {
    return {
      run: {
        bytes: this.#keptBytes(),
        count: this.#count,
        payloadBytes: this.#payloadBytes,
        firstSequence: BigInt(this.#first),
        lastSequence: BigInt(this.#lastStored),
        kinds: new Map(
          this.#kinds.flatMap(({ name, ...count }) =>
            count.envelopes > 0 ? [[decodeText(name), count]] : [],
          ),
        ),
        observed: this.#observed,
      },
      discarded: this.#discarded,
      last: BigInt(this.#last),
      heldBytes: this.#heldBytes,
    };
  }

  /** Reads the envelope that ends at `end`, and counts it unless its spans are on the discard list. */
  #read(start: number, end: number): void {
    const bytes = this.#bytes;
    let kindStart = 0;
    let kindEnd = 0;
    let payloadStart = 0;
    let payloadEnd = 0;
    let textBytes = 0;
    let sequence = 0;
    let tag = 0;
    let isObserved = false;
    while (this.at < end) {
      const next = bytes[this.at++] as number;
      plain(next > tag || (next === tag && tag === attributeTag));
      tag = next;
      if (tag === sequenceTag) {
        sequence = this.#varint(end);
        continue;
      }
      const fieldEnd = this.#length(end);
      if (tag === kindTag) {
        kindStart = this.at;
        kindEnd = fieldEnd;
        textBytes += fieldEnd - this.at;
      } else if (tag === sourceTag) {
        this.#checkText(this.at, fieldEnd);
        textBytes += fieldEnd - this.at;
      } else if (tag === payloadTag) {
        payloadStart = this.at;
        payloadEnd = fieldEnd;
      } else if (tag === attributeTag) this.#attribute(fieldEnd);
      else if (tag === observedAtTag) {
        isObserved = true;
        this.#timestamp(fieldEnd);
      } else throw new NotPlain();
      this.at = fieldEnd;
    }
    plain(sequence > this.#last);
    this.#last = sequence;
    const payloadBytes = payloadEnd - payloadStart;
    plain(payloadBytes <= this.#limits.payloadBytesMax);
    this.#heldBytes += payloadBytes + textBytes + envelopeOverheadBytes;
    plain(++this.#entries <= entriesMax);
    const kind = this.#kindOf(kindStart, kindEnd);
    if (this.#isDiscarded(kind, payloadStart, payloadEnd)) {
      this.#discarded.push(BigInt(sequence));
      this.#kept.push(start, end);
      return;
    }
    this.#countStored(sequence, kind, payloadBytes, isObserved);
  }

  #countStored(sequence: number, kind: KnownKind, payloadBytes: number, isObserved: boolean): void {
    if (this.#count === 0) this.#first = sequence;
    this.#lastStored = sequence;
    this.#count++;
    this.#payloadBytes += payloadBytes;
    kind.envelopes++;
    kind.payloadBytes += payloadBytes;
    if (isObserved) this.#observed = widen(this.#observed, this.#seconds);
  }

  #keptBytes(): Uint8Array {
    if (this.#discarded.length === 0) return this.#bytes;
    const ends = [...this.#kept, this.#bytes.length];
    const parts: Uint8Array[] = [];
    for (let index = 0; index < ends.length; index += 2)
      parts.push(this.#bytes.subarray(ends[index], ends[index + 1]));
    return Buffer.concat(parts);
  }

  /** Returns the count of a kind, of which a frame has few. */
  #kindOf(start: number, end: number): KnownKind {
    for (const kind of this.#kinds) if (this.#isEqual(kind.name, start, end)) return kind;
    plain(end > start && end - start <= kindBytesMax);
    for (let at = start; at < end; at++) {
      const byte = this.#bytes[at] as number;
      // a-z, 0-9 and the underscore
      plain((byte >= 0x61 && byte <= 0x7a) || (byte >= 0x30 && byte <= 0x39) || byte === 0x5f);
    }
    plain(this.#kinds.length < kindsMax);
    const kind = { name: this.#bytes.slice(start, end), envelopes: 0, payloadBytes: 0 };
    this.#kinds.push(kind);
    return kind;
  }

  #isEqual(name: Uint8Array, start: number, end: number): boolean {
    if (name.length !== end - start) return false;
    for (let at = 0; at < name.length; at++) if (name[at] !== this.#bytes[start + at]) return false;
    return true;
  }

  /** Text that PostgreSQL stores as well: UTF-8 without NUL. */
  #checkText(start: number, end: number): void {
    for (let at = start; at < end; at++) {
      const byte = this.#bytes[at] as number;
      plain(byte !== 0);
      if (byte < 0x80) continue;
      const rest = this.#bytes.subarray(at, end);
      decodeText(rest);
      // Within UTF-8 a byte of 0 is the character NUL, and nothing else.
      plain(!rest.includes(0));
      return;
    }
  }

  #isDiscarded({ name }: KnownKind, start: number, end: number): boolean {
    const { discardSpanNames } = this.#limits;
    if (discardSpanNames.size === 0 || decodeText(name) !== "otel_span") return false;
    return everySpanNamed(this.#bytes.subarray(start, end), discardSpanNames);
  }

  #timestamp(end: number): void {
    let tag = 0;
    let nanos = 0;
    this.#seconds = 0;
    while (this.at < end) {
      const next = this.#bytes[this.at++] as number;
      plain(next > tag);
      tag = next;
      // A negative number takes ten bytes, which `#varint` leaves to the generated code.
      if (tag === secondsTag) this.#seconds = this.#varint(end);
      else if (tag === nanosTag) nanos = this.#varint(end);
      else throw new NotPlain();
    }
    plain(this.at === end && nanos <= 999_999_999);
    plain(this.#seconds >= secondsMin && this.#seconds <= secondsMax);
  }

  #attribute(end: number): void {
    let tag = 0;
    let textBytes = 0;
    while (this.at < end) {
      const next = this.#bytes[this.at++] as number;
      plain(next > tag && (next === nameTag || next === valueTag));
      tag = next;
      const textEnd = this.#length(end);
      this.#checkText(this.at, textEnd);
      textBytes += textEnd - this.at;
      this.at = textEnd;
    }
    this.#heldBytes += textBytes + attributeOverheadBytes;
    plain(++this.#entries <= entriesMax);
  }

  /** Reads a length; returns where the field ends, which is at most `end`. */
  #length(end: number): number {
    const to = this.#varint(end) + this.at;
    plain(to <= end);
    return to;
  }

  /** Reads a varint of up to 2^53 - 1. */
  #varint(end: number): number {
    let value = 0;
    let factor = 1;
    for (;;) {
      plain(this.at < end);
      const byte = this.#bytes[this.at++] as number;
      value += (byte & 0x7f) * factor;
      if (byte < 0x80) break;
      factor *= 0x80;
      plain(factor <= 2 ** 49);
    }
    plain(value <= Number.MAX_SAFE_INTEGER);
    return value;
  }
}

/** A frame of more kinds is for the generated code. */
const kindsMax = 16;

const plain = (condition: boolean): void => {
  if (!condition) throw new NotPlain();
};
