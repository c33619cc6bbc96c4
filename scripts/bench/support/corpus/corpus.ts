/**
 * The telemetry that benches send: spans of the OpenTelemetry SDK, and log lines in five forms, from a seed. A pool of records is
 * made before the clock starts. Each later use of a record moves its times on and replaces its ids, so that nothing is sent twice while
 * ids that were equal, as those of one trace, remain equal: it compresses as in life.
 */
import { constants, gzipSync, zstdCompressSync } from "node:zlib";
import { create, toBinary } from "@bufbuild/protobuf";
import { BinaryReader, WireType } from "@bufbuild/protobuf/wire";
import { FrameSchema } from "#proto/gen/svc/ingest/v1/ingest_pb.js";
import { createRandom, type Random } from "#scripts/fleet-sim/scenario/random.ts";
import { rounded } from "../bench.ts";
import { createSpanRequests } from "./instrumented.ts";
import { createLines } from "./lines.ts";

/** Kinds of corpus. */
export const corpusMixes = ["spans", "lines"] as const;
export type CorpusMix = (typeof corpusMixes)[number];

/** Reads the name of a kind; throws on an unknown one. */
export const readMix = (given: string): CorpusMix => {
  const mix = corpusMixes.find((known) => known === given);
  if (mix === undefined) throw new Error(`no corpus is named ${given}: ${corpusMixes.join(", ")}`);
  return mix;
};

/** A record, as a collector makes an envelope of it. */
export interface CorpusRecord {
  kind: "otel_span" | "log_line";
  source: string;
  attributes: Readonly<Record<string, string>>;
  /** Milliseconds since the Unix epoch. */
  at: number;
  payload: Uint8Array;
  /** Where its payload changes from use to use. */
  slots: readonly Slot[];
}

/** Bytes that change: an id, an id in hexadecimal digits, nanoseconds since the Unix epoch, or HH:MM:SS. */
interface Slot {
  at: number;
  kind: "id" | "hex" | "nanos" | "clock";
  length: number;
}

/** Records of a kind; enough of them that no block of 200 repeats within the window of zstd 1, of 512 KiB. */
const corpusRecords = 20_000;
const startedAt = Date.UTC(2026, 10, 23, 3);

/** Creates a pool of records; each span request has `spansOfRequest` spans. The same options make the same bytes. */
export const createCorpus = async ({
  mix,
  seed = 1,
  records: count = corpusRecords,
  spansOfRequest = 1,
}: {
  mix: CorpusMix;
  seed?: number;
  records?: number;
  spansOfRequest?: number;
}): Promise<CorpusRecord[]> => {
  const random = createRandom("corpus", seed, mix);
  const nextLine = createLineRecords(random);
  const spans = createSpanRequests(random, startedAt, spansOfRequest);
  const nextSpans = (): CorpusRecord => {
    const { bytes: payload, at } = spans.next().value;
    const slots: Slot[] = [];
    findSlots(payload, 0, spanFields, slots);
    return { kind: "otel_span", source: "otlp", attributes: {}, at, payload, slots };
  };
  return Array.from({ length: count }, mix === "lines" ? nextLine : nextSpans);
};

/** Returns a function that returns the next line as a record, with its place in its file. */
const createLineRecords = (random: Random): (() => CorpusRecord) => {
  const lines = createLines(random, startedAt);
  const offsets = new Map<string, number>();
  return () => {
    const { path, text, at } = lines.next().value;
    const offset = offsets.get(path) ?? 0;
    const payload = Buffer.from(text);
    offsets.set(path, offset + payload.length + 1);
    const attributes = { "file.path": path, "file.offset": String(offset) };
    return { kind: "log_line", source: "files", attributes, at, payload, slots: lineSlots(text) };
  };
};

/** The first time of day, and ids in hexadecimal digits; all texts are ASCII. */
const lineSlots = (text: string): Slot[] => {
  const clock = /\d\d:\d\d:\d\d/.exec(text);
  const ids = [...text.matchAll(/\b(?:[0-9a-f]{32}|[0-9a-f]{16})\b/g)];
  return [
    ...(clock ? [{ at: clock.index, kind: "clock" as const, length: 8 }] : []),
    ...ids.map(({ index, 0: id }) => ({ at: index, kind: "hex" as const, length: id.length })),
  ];
};

type FieldKind = "id" | "nanos";
/** Field numbers to ids and times. */
interface Fields {
  readonly [field: number]: FieldKind | Fields;
}
const spanFields: Fields = {
  1: { 2: { 2: { 1: "id", 2: "id", 4: "id", 7: "nanos", 8: "nanos", 11: { 1: "nanos" } } } },
};

const findSlots = (bytes: Uint8Array, offset: number, fields: Fields, slots: Slot[]): void => {
  const reader = new BinaryReader(bytes);
  while (reader.pos < reader.len) {
    const [field, wireType] = reader.tag();
    const found = fields[field];
    const length = wireType === WireType.LengthDelimited ? reader.uint32() : 8;
    const at = reader.pos;
    if (wireType === WireType.LengthDelimited) reader.pos += length;
    else reader.skip(wireType, field);
    if (found === undefined) continue;
    if (typeof found === "object")
      findSlots(bytes.subarray(at, at + length), offset + at, found, slots);
    else slots.push({ at: offset + at, kind: found, length });
  }
};

/** How far a use of the pool moves every time on: longer than the pool, so that no time occurs again on a day. */
const secondsOfUse = 43;

/** Returns a copy of a payload as its `use` sends it, counted from 0, whose copy is equal. */
export const refreshed = (
  payload: Uint8Array,
  slots: readonly Slot[],
  use: number,
): Buffer<ArrayBuffer> => {
  const copy = Buffer.from(payload);
  refresh(copy, 0, slots, use);
  return copy;
};

/** Changes the payload that begins at `start` to that of its `use`. */
export const refresh = (copy: Buffer, start: number, slots: readonly Slot[], use: number): void => {
  if (use === 0) return;
  const key = keyOf(use);
  const seconds = use * secondsOfUse;
  for (const { at: offset, kind, length } of slots) {
    const at = start + offset;
    if (kind === "nanos") addNanos(copy, at, seconds);
    else if (kind === "clock") addToClock(copy, at, seconds);
    else if (kind === "hex")
      for (let digit = 0; digit < length; digit++)
        xorDigit(copy, at + digit, key[digit & 15] as number);
    else
      for (let byte = 0; byte < length; byte++)
        copy[at + byte] = (copy[at + byte] as number) ^ (key[byte] as number);
  }
};

/** Returns a function that returns the next payload: those of all records, and again with other ids and times. */
export const createSupply = (records: readonly CorpusRecord[]): (() => Buffer<ArrayBuffer>) => {
  let used = 0;
  return () => {
    const record = records[used % records.length];
    if (record === undefined) throw new Error("the corpus is empty");
    return refreshed(record.payload, record.slots, Math.floor(used++ / records.length));
  };
};

const keys = new Map<number, Uint8Array>();
const keyOf = (use: number): Uint8Array => {
  const key = keys.get(use) ?? createRandom("use", use).bytes(16);
  keys.set(use, key);
  return key;
};

const xorDigit = (bytes: Uint8Array, at: number, key: number): void => {
  const code = bytes[at] as number;
  const value = (code <= 57 ? code - 48 : code - 87) ^ (key & 15);
  bytes[at] = value < 10 ? value + 48 : value + 87;
};

const addNanos = (bytes: Buffer, at: number, seconds: number): void => {
  const nanos = seconds * 1e9;
  const low = bytes.readUInt32LE(at) + (nanos % 2 ** 32);
  bytes.writeUInt32LE(low % 2 ** 32, at);
  bytes.writeUInt32LE(
    bytes.readUInt32LE(at + 4) + Math.floor(nanos / 2 ** 32) + (low >= 2 ** 32 ? 1 : 0),
    at + 4,
  );
};

const addToClock = (bytes: Uint8Array, at: number, seconds: number): void => {
  const read = (from: number) => Number(bytes[from]) * 10 + Number(bytes[from + 1]) - 528;
  const time = (read(at) * 3600 + read(at + 3) * 60 + read(at + 6) + seconds) % 86_400;
  const write = (from: number, value: number) => {
    bytes[from] = 48 + Math.floor(value / 10);
    bytes[from + 1] = 48 + (value % 10);
  };
  write(at, Math.floor(time / 3600));
  write(at + 3, Math.floor(time / 60) % 60);
  write(at + 6, time % 60);
};

/** What each bench prints of its corpus: mean bytes of a record, and how much smaller compression makes blocks of 200 and requests of 100. */
export const describeCorpus = async (records: readonly CorpusRecord[], mix: CorpusMix) => {
  const requests =
    mix === "spans" ? await createCorpus({ mix, records: 20, spansOfRequest: 100 }) : records;
  const texts = requests.map(({ payload }) => payload);
  const perRequest = mix === "spans" ? 1 : 100;
  return {
    mix,
    payload_bytes_each: rounded(
      records.reduce((sum, { payload }) => sum + payload.length, 0) / records.length,
    ),
    block_of_200: ratios(chunks(records, 200).map(encodeEnvelopes), 200),
    request_of_100: ratios(
      chunks(texts, perRequest).map((payloads) => Buffer.concat(payloads)),
      100,
    ),
  };
};

const chunks = <Item>(items: readonly Item[], size: number): Item[][] =>
  Array.from({ length: Math.min(20, Math.floor(items.length / size)) }, (_, n) =>
    items.slice(n * size, (n + 1) * size),
  );

/** Returns the envelopes of records, as a frame has them, with sequences from `first`. */
export const toEnvelopes = (records: readonly CorpusRecord[], first: number) =>
  records.map(({ kind, source, attributes, at, payload }, index) => ({
    sequence: BigInt(first + index),
    kind,
    source,
    attributes: { ...attributes },
    observedAt: { seconds: BigInt(Math.floor(at / 1000)), nanos: (at % 1000) * 1_000_000 },
    payload,
  }));

const encodeEnvelopes = (records: readonly CorpusRecord[]): Uint8Array =>
  toBinary(FrameSchema, create(FrameSchema, { envelopes: toEnvelopes(records, 2 ** 28) }));

const ratios = (blocks: readonly Uint8Array[], records: number) => {
  const raw = blocks.reduce((sum, { length }) => sum + length, 0);
  const ratio = (compress: (block: Uint8Array) => Uint8Array) =>
    rounded(raw / blocks.reduce((sum, block) => sum + compress(block).length, 0), 1);
  const params = { [constants.ZSTD_c_compressionLevel]: 1 };
  return {
    bytes_each: rounded(raw / blocks.length / records),
    zstd_1: ratio((block) => zstdCompressSync(block, { params })),
    gzip_1: ratio((block) => gzipSync(block, { level: 1 })),
  };
};
