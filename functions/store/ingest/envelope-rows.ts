/**
 * Rows of `ingest_envelope` in PostgreSQL's binary COPY format (its manual, "COPY", "Binary Format"), as CopyData messages carry them.
 * Writing them is the hottest loop of core: the writer allocates nothing for a row.
 */

import { type BufferPool, unpooled } from "../../../kit/buffer-pool.ts";

/** The columns, in the order of a row's values. */
export const envelopeColumns = [
  "host_id",
  "queue_id",
  "sequence",
  "kind",
  "observed_at",
  "received_at",
  "source",
  "attributes",
  "payload",
] as const;

/** Rows to copy. */
export interface CopyRows {
  /** `headerBytes` left free for the header of a CopyData message, then the rows. */
  bytes: Uint8Array<ArrayBuffer>;
  count: number;
  payloadBytes: number;
}

/** The rows of one frame, which rise in sequence, with where each of them begins. */
export interface EncodedRows extends CopyRows {
  /** An entry for each row; may be longer than `count`. */
  sequences: BigInt64Array;
  /** For each row, where it begins in `bytes` and the bytes of its payload; may be longer. */
  extents: Uint32Array;
}

/** One row, in the shape of the protobuf message; text holds no NUL, `sequence` fits a signed 64-bit integer. */
export interface EnvelopeRow {
  sequence: bigint;
  kind: string;
  /** Absent when the sender gave none; years 1 to 9999. */
  observedAt?: { seconds: bigint; nanos: number } | undefined;
  source: string;
  attributes: Readonly<Record<string, string>>;
  payload: Uint8Array;
}

/** Rows of one queue that were received together. */
export interface EnvelopeGroup {
  hostId: string;
  queueId: Uint8Array;
  /** Milliseconds since the Unix epoch. */
  receivedAt: number;
  rows: readonly EnvelopeRow[];
}

/** A CopyData message begins with its type and its length. */
export const headerBytes = 5;

/** Bytes of a row beside its prefix, texts and payload: five lengths, three fixed-width columns, the version of a jsonb. */
export const fixedRowBytes = 5 * 4 + 3 * 12 + 1;

/** Encodes rows for COPY. */
export const encodeRows = ({ hostId, queueId, receivedAt, rows }: EnvelopeGroup): EncodedRows => {
  const prefix = encodePrefix(hostId, queueId);
  const bytes = rows.reduce((sum, { payload }) => sum + payload.length + prefix.length + fixedRowBytes + 64, 0);
  const writer = new RowWriter(unpooled, { prefix, receivedAt, rows: rows.length, bytes });
  for (const { sequence, kind, observedAt, source, attributes, payload } of rows) {
    const kindText = Buffer.from(kind);
    const sourceText = Buffer.from(source);
    const json = Buffer.from(JSON.stringify(attributes));
    writer.begin(sequence, kindText.length + sourceText.length + json.length + payload.length);
    writer.text(kindText, 0, kindText.length);
    if (observedAt) writer.timestamps(Number(observedAt.seconds), Math.floor(observedAt.nanos / 1000));
    else writer.timestamps(undefined, 0);
    writer.text(sourceText, 0, sourceText.length);
    writer.attributes(json, json.length);
    writer.payload(payload);
  }
  return writer.finish();
};

/** Returns a copy of the rows whose sequence is above `cursor`. */
export const rowsAbove = ({ bytes, sequences, extents, ...all }: EncodedRows, cursor: bigint): CopyRows => {
  let { count, payloadBytes } = all;
  let first = 0;
  for (; first < all.count && (sequences[first] as bigint) <= cursor; first++) {
    payloadBytes -= extents[first * 2 + 1] as number;
    count--;
  }
  const kept = bytes.subarray(count > 0 ? extents[first * 2] : bytes.length);
  const copy = new Uint8Array(headerBytes + kept.length);
  copy.set(kept, headerBytes);
  return { bytes: copy, count, payloadBytes };
};

/** The bytes with which each row of a queue begins: the number of columns, and the first two. */
export const encodePrefix = (hostId: string, queueId: Uint8Array): Uint8Array<ArrayBuffer> => {
  const host = Buffer.from(hostId);
  const prefix = Buffer.alloc(2 + 4 + host.length + 4 + queueId.length);
  prefix.writeInt16BE(envelopeColumns.length);
  prefix.writeInt32BE(host.length, 2);
  prefix.set(host, 6);
  prefix.writeInt32BE(queueId.length, 6 + host.length);
  prefix.set(queueId, 10 + host.length);
  return prefix;
};

const postgresEpochSeconds = 946_684_800;

/** The initial sizes of a writer. `bytes` estimates all rows, `rows` is their maximum number. */
export interface RowWriterOptions {
  prefix: Uint8Array;
  /** Milliseconds since the Unix epoch. */
  receivedAt: number;
  rows: number;
  bytes: number;
}

/** Writes one column after the other; the caller keeps to their order. Its result lies in a buffer of the pool. */
export class RowWriter {
  #bytes: Uint8Array<ArrayBuffer>;
  #view: DataView;
  #at = headerBytes;
  #count = 0;
  #payloadBytes = 0;
  readonly #sequences: BigInt64Array;
  readonly #extents: Uint32Array;
  readonly #pool: BufferPool;
  readonly #prefix: Uint8Array;
  readonly #receivedSeconds: number;
  readonly #receivedMicroseconds: number;

  constructor(pool: BufferPool, { prefix, receivedAt, rows, bytes }: RowWriterOptions) {
    this.#pool = pool;
    this.#prefix = prefix;
    this.#receivedSeconds = Math.floor(receivedAt / 1000);
    this.#receivedMicroseconds = (receivedAt - this.#receivedSeconds * 1000) * 1000;
    this.#sequences = new BigInt64Array(rows);
    this.#extents = new Uint32Array(rows * 2);
    this.#bytes = pool.acquire(headerBytes + bytes);
    this.#view = new DataView(this.#bytes.buffer, this.#bytes.byteOffset, this.#bytes.length);
  }

  /** Begins a row; `bytes` is the length of its texts, attributes and payload. */
  begin(sequence: bigint, bytes: number): void {
    this.#reserve(this.#prefix.length + fixedRowBytes + bytes);
    this.#sequences[this.#count] = sequence;
    this.#extents[this.#count * 2] = this.#at;
    this.#bytes.set(this.#prefix, this.#at);
    this.#at += this.#prefix.length;
    this.#view.setInt32(this.#at, 8);
    this.#view.setBigInt64(this.#at + 4, sequence);
    this.#at += 12;
    this.#count++;
  }

  /** Writes a short text, given as valid UTF-8 without NUL. */
  text(source: Uint8Array, start: number, end: number): void {
    this.#view.setInt32(this.#at, end - start);
    this.#at += 4;
    for (let at = start; at < end; at++) this.#bytes[this.#at++] = source[at] as number;
  }

  /** Writes `observed_at`, in seconds since the Unix epoch or undefined for NULL, and `received_at`. */
  timestamps(observedSeconds: number | undefined, microseconds: number): void {
    if (observedSeconds === undefined) {
      this.#view.setInt32(this.#at, -1);
      this.#at += 4;
    } else this.#timestamp(observedSeconds, microseconds);
    this.#timestamp(this.#receivedSeconds, this.#receivedMicroseconds);
  }

  /** Writes attributes, given as the text of a JSON object. */
  attributes(json: Uint8Array, length: number): void {
    this.#view.setInt32(this.#at, length + 1);
    // jsonb is its version, 1, and the text.
    this.#bytes[this.#at + 4] = 1;
    this.#at += 5;
    for (let at = 0; at < length; at++) this.#bytes[this.#at++] = json[at] as number;
  }

  /** Writes the payload, which ends the row. */
  payload(source: Uint8Array): void {
    this.#view.setInt32(this.#at, source.length);
    this.#bytes.set(source, this.#at + 4);
    this.#at += 4 + source.length;
    this.#payloadBytes += source.length;
    this.#extents[this.#count * 2 - 1] = source.length;
  }

  /** Returns all rows. */
  finish(): EncodedRows {
    return {
      bytes: this.#bytes.subarray(0, this.#at),
      count: this.#count,
      payloadBytes: this.#payloadBytes,
      sequences: this.#sequences,
      extents: this.#extents,
    };
  }

  #timestamp(seconds: number, microseconds: number): void {
    const value = (seconds - postgresEpochSeconds) * 1_000_000 + microseconds;
    this.#view.setInt32(this.#at, 8);
    // Exact as a double from 1714 to 2285, and then without a BigInt.
    if (Number.isSafeInteger(value)) {
      this.#view.setInt32(this.#at + 4, Math.floor(value / 0x1_0000_0000));
      this.#view.setUint32(this.#at + 8, value >>> 0);
    } else {
      const exact = BigInt(seconds - postgresEpochSeconds) * 1_000_000n + BigInt(microseconds);
      this.#view.setBigInt64(this.#at + 4, exact);
    }
    this.#at += 12;
  }

  #reserve(bytes: number): void {
    if (this.#at + bytes <= this.#bytes.length) return;
    const grown = this.#pool.acquire(Math.max(this.#at + bytes, this.#bytes.length * 2));
    grown.set(this.#bytes.subarray(0, this.#at));
    this.#pool.release(this.#bytes);
    this.#bytes = grown;
    this.#view = new DataView(grown.buffer, grown.byteOffset, grown.length);
  }
}
