/**
 * Envelopes of one queue as they are stored: a run of fields `envelopes` (ingest.proto), plain: each field once and in the order of the
 * numbers, as every protobuf library writes them. Core stores the sender's own bytes in a block, and encodes only a run again of which
 * something was cut, rejected or discarded.
 */
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { type BinaryReader, WireType } from "@bufbuild/protobuf/wire";
import { TimestampSchema } from "@bufbuild/protobuf/wkt";
import {
  type Envelope,
  EnvelopeSchema,
  EnvelopesSchema,
} from "#proto/gen/svc/ingest/v1/ingest_pb.js";
import { decodeText, eachField, eachValue, readWire, wireTag } from "#proto/wire.ts";
import type { StoredBlock, StoredEnvelope } from "./stored-envelope.ts";

/** How many envelopes of a kind, and the bytes of their payloads. */
export interface KindCount {
  envelopes: number;
  payloadBytes: number;
}

/** Envelopes of one queue in ascending sequence. */
export interface EnvelopeRun {
  /** The encoded `Envelopes`. */
  bytes: Uint8Array;
  count: number;
  payloadBytes: number;
  firstSequence: bigint;
  lastSequence: bigint;
  kinds: ReadonlyMap<string, KindCount>;
  /** The first and the last observation, in seconds since the Unix epoch; undefined if no sender gave a time. */
  observed: { from: number; to: number } | undefined;
  /** `bytes` as their sender compressed them: frames of zstd that follow each other. Then `bytes` are empty. */
  compressed?: readonly Uint8Array[] | undefined;
  /** Where they are stored already: the data and the digest of the block's row. Then `bytes` are empty. */
  placed?: { reference: Uint8Array; digest: Uint8Array } | undefined;
  /** The length of `bytes` where they are empty. */
  rawBytes?: number | undefined;
}

/** The figures of a run. */
type Figures = Omit<EnvelopeRun, "bytes" | "compressed" | "kinds"> & {
  kinds: Map<string, KindCount>;
};

/** The fields of an envelope that the figures need. */
interface EnvelopeHead {
  sequence: bigint;
  kind: string;
  payloadBytes: number;
  /** Since the Unix epoch; undefined when its sender gave no time. */
  observedSeconds: number | undefined;
}

const noFigures = (): Figures => ({
  count: 0,
  payloadBytes: 0,
  firstSequence: 0n,
  lastSequence: 0n,
  kinds: new Map(),
  observed: undefined,
});

const addHead = (
  figures: Figures,
  { sequence, kind, payloadBytes, observedSeconds }: EnvelopeHead,
) => {
  if (figures.count++ === 0) figures.firstSequence = sequence;
  figures.lastSequence = sequence;
  figures.payloadBytes += payloadBytes;
  if (observedSeconds !== undefined) figures.observed = widen(figures.observed, observedSeconds);
  addKind(figures.kinds, kind, { envelopes: 1, payloadBytes });
};

const addKind = (
  kinds: Map<string, KindCount>,
  kind: string,
  { envelopes, payloadBytes }: KindCount,
) => {
  const counted = kinds.get(kind);
  if (counted === undefined) kinds.set(kind, { envelopes, payloadBytes });
  else {
    counted.envelopes += envelopes;
    counted.payloadBytes += payloadBytes;
  }
};

/** Encodes envelopes in ascending sequence. */
export const runOf = (envelopes: readonly Envelope[]): EnvelopeRun => {
  const bytes = toBinary(EnvelopesSchema, create(EnvelopesSchema, { envelopes: [...envelopes] }));
  return { ...selectRun({ bytes }, () => true), bytes };
};

/** Returns a run without envelopes. */
export const emptyRun = (): EnvelopeRun => ({ ...noFigures(), bytes: new Uint8Array() });

/** Returns the selected envelopes of a run. */
const selectRun = (
  run: Pick<EnvelopeRun, "bytes">,
  isSelected: (envelope: Pick<EnvelopeHead, "sequence">) => boolean,
): EnvelopeRun =>
  partitionRun(run, (envelope) => (isSelected(envelope) ? "" : undefined)).get("") ?? emptyRun();

/** Splits the envelopes of a run by key into a run for each, in the order of the run, without decoding them. Omits those without a key. */
export const partitionRun = (
  { bytes }: Pick<EnvelopeRun, "bytes">,
  keyOf: (envelope: Pick<EnvelopeHead, "sequence" | "kind">) => string | undefined,
): Map<string, EnvelopeRun> => {
  const parts = new Map<string, { figures: Figures; pieces: Uint8Array[] }>();
  readWire(bytes, (reader) => {
    let start = 0;
    eachValue(reader, bytes.length, EnvelopesSchema.field.envelopes.number, (end) => {
      const head = readHead(bytes, reader, end);
      const key = keyOf(head);
      if (key !== undefined) {
        const part = parts.get(key) ?? { figures: noFigures(), pieces: [] };
        parts.set(key, part);
        addHead(part.figures, head);
        part.pieces.push(bytes.subarray(start, end));
      }
      start = end;
    });
  });
  return new Map(
    [...parts].map(([key, { figures, pieces }]) => [
      key,
      { ...figures, bytes: Buffer.concat(pieces) },
    ]),
  );
};

const readHead = (bytes: Uint8Array, reader: BinaryReader, end: number): EnvelopeHead => {
  const head: EnvelopeHead = {
    sequence: 0n,
    kind: "",
    payloadBytes: 0,
    observedSeconds: undefined,
  };
  eachField(reader, end, (tag, fieldEnd) => {
    // The reader returns a string only in runtimes without bigints.
    if (tag === sequenceTag) head.sequence = reader.uint64() as bigint;
    else if (tag === kindTag) head.kind = decodeText(bytes.subarray(reader.pos, fieldEnd));
    else if (tag === payloadTag) head.payloadBytes = fieldEnd - reader.pos;
    else if (tag === observedAtTag) {
      head.observedSeconds = 0;
      eachField(reader, fieldEnd, (timestampTag) => {
        if (timestampTag === secondsTag) head.observedSeconds = Number(reader.int64());
      });
    }
  });
  return head;
};

const { sequence, kind, observedAt, source, attributes, payload } = EnvelopeSchema.field;
const sequenceTag = wireTag(sequence.number, WireType.Varint);
const kindTag = wireTag(kind.number, WireType.LengthDelimited);
const observedAtTag = wireTag(observedAt.number, WireType.LengthDelimited);
const sourceTag = wireTag(source.number, WireType.LengthDelimited);
const attributesTag = wireTag(attributes.number, WireType.LengthDelimited);
const keyTag = wireTag(1, WireType.LengthDelimited);
const valueTag = wireTag(2, WireType.LengthDelimited);
const payloadTag = wireTag(payload.number, WireType.LengthDelimited);
const secondsTag = wireTag(TimestampSchema.field.seconds.number, WireType.Varint);
const nanosTag = wireTag(TimestampSchema.field.nanos.number, WireType.Varint);

/** Returns the part of a run above `cursor`. */
export const runAbove = (run: Pick<EnvelopeRun, "bytes">, cursor: bigint): EnvelopeRun =>
  selectRun(run, ({ sequence }) => sequence > cursor);

/** Decodes a run. */
export const envelopesOf = ({ bytes }: Pick<EnvelopeRun, "bytes">): Envelope[] =>
  fromBinary(EnvelopesSchema, bytes, { readUnknownFields: false }).envelopes;

/**
 * Decodes the envelopes of a block. Throws for bytes that `fromBinary` refuses, and for some that it does not. Takes a quarter of its time and a
 * third of its memory, because exports decode all that is stored; envelope-run.test.ts holds it to `fromBinary`.
 */
export const decodeEnvelopes = (
  bytes: Uint8Array,
  { hostId, queueId, receivedAt }: Pick<StoredBlock, "hostId" | "queueId" | "receivedAt">,
): StoredEnvelope[] => {
  const envelopes: StoredEnvelope[] = [];
  const kindOf = remember(decodeText);
  const sourceOf = remember(decodeText);
  const attributesOf = remember(decodeAttributes);
  const decode = (reader: BinaryReader, end: number): StoredEnvelope => {
    const envelope: StoredEnvelope = { ...empty, hostId, queueId, receivedAt };
    let attributesAt = end;
    let attributesEnd = end;
    let start = reader.pos;
    eachField(reader, end, (tag, fieldEnd) => {
      const value = () => bytes.subarray(reader.pos, fieldEnd);
      if (tag === sequenceTag) envelope.sequence = reader.uint64() as bigint;
      else if (tag === kindTag) envelope.kind = kindOf(value());
      else if (tag === observedAtTag) envelope.observedAt = readTimestamp(reader, fieldEnd);
      else if (tag === sourceTag) envelope.source = sourceOf(value());
      else if (tag === payloadTag) envelope.payload = value();
      else if (tag === attributesTag) {
        attributesAt = Math.min(attributesAt, start);
        attributesEnd = fieldEnd;
      }
      start = fieldEnd;
    });
    if (attributesAt < end)
      envelope.attributes = attributesOf(bytes.subarray(attributesAt, attributesEnd));
    return envelope;
  };
  readWire(bytes, (reader) =>
    eachValue(reader, bytes.length, EnvelopesSchema.field.envelopes.number, (end) => {
      envelopes.push(decode(reader, end));
    }),
  );
  return envelopes;
};

/** The values of fields that a message leaves out. */
const empty: Omit<StoredEnvelope, "hostId" | "queueId" | "receivedAt"> = {
  sequence: 0n,
  kind: "",
  observedAt: null,
  source: "",
  attributes: {},
  payload: new Uint8Array(),
};

/** Returns the same value for the same bytes as in the call before: most envelopes of a block have the names of the one before. */
const remember = <Value>(decode: (bytes: Uint8Array) => Value) => {
  let last: { bytes: Uint8Array; value: Value } | undefined;
  return (bytes: Uint8Array): Value => {
    if (last === undefined || Buffer.compare(last.bytes, bytes) !== 0)
      last = { bytes, value: decode(bytes) };
    return last.value;
  };
};

/** Decodes the fields from the first attribute to the last one. */
const decodeAttributes = (bytes: Uint8Array): StoredEnvelope["attributes"] =>
  readWire(bytes, (reader) => {
    const entries: [string, string][] = [];
    eachValue(reader, bytes.length, attributes.number, (end) => {
      const entry: [string, string] = ["", ""];
      eachField(reader, end, (tag, fieldEnd) => {
        if (tag === keyTag || tag === valueTag)
          entry[tag === keyTag ? 0 : 1] = decodeText(bytes.subarray(reader.pos, fieldEnd));
      });
      entries.push(entry);
    });
    return Object.fromEntries(entries);
  });

/** Returns microseconds since the Unix epoch. */
const readTimestamp = (reader: BinaryReader, end: number): bigint => {
  let seconds = 0n;
  let nanos = 0;
  eachField(reader, end, (tag) => {
    if (tag === secondsTag) seconds = reader.int64() as bigint;
    else if (tag === nanosTag) nanos = reader.int32();
  });
  return seconds * 1_000_000n + BigInt(Math.floor(nanos / 1000));
};

/** Returns the length of the encoded envelopes. */
export const rawBytesOf = ({ bytes, rawBytes }: Pick<EnvelopeRun, "bytes" | "rawBytes">): number =>
  rawBytes ?? bytes.length;

/** Joins runs of one queue in ascending order: all of them compressed, or none. */
export const joinRuns = (runs: readonly [EnvelopeRun, ...EnvelopeRun[]]): EnvelopeRun => {
  const [first] = runs;
  if (runs.length === 1) return first;
  const joined = { ...first, count: 0, payloadBytes: 0, compressed: undefined };
  const kinds = new Map<string, KindCount>();
  for (const run of runs) {
    joined.count += run.count;
    joined.payloadBytes += run.payloadBytes;
    joined.lastSequence = run.lastSequence;
    if (run.observed)
      joined.observed = widen(widen(joined.observed, run.observed.from), run.observed.to);
    for (const [kind, counted] of run.kinds) addKind(kinds, kind, counted);
  }
  const compressed = runs.flatMap((run) => run.compressed ?? []);
  if (compressed.length === 0)
    return { ...joined, bytes: Buffer.concat(runs.map(({ bytes }) => bytes)), kinds };
  const rawBytes = runs.reduce((sum, run) => sum + rawBytesOf(run), 0);
  return { ...joined, rawBytes, compressed, kinds };
};

/** Extends a span of seconds to include `seconds`; returns the same span if it does already. */
export const widen = (
  observed: EnvelopeRun["observed"],
  seconds: number,
): { from: number; to: number } => {
  if (observed === undefined) return { from: seconds, to: seconds };
  if (seconds < observed.from) return { from: seconds, to: observed.to };
  return seconds > observed.to ? { from: observed.from, to: seconds } : observed;
};
