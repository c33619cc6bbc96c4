/**
 * Writes rows of `ingest_envelope` in PostgreSQL's binary COPY format (its manual, "COPY", "Binary Format"), as CopyData messages take
 * them. This is the hottest loop of core: it allocates nothing for a row.
 */

import type { BufferPool } from "../../kit/buffer-pool.ts";

/** The columns, in the order in which a row has them. */
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

/** Rows that can be copied as they are: those of one frame. */
export interface EncodedRows {
  /** `headerBytes` that are free for the header of a CopyData message, and the rows. */
  bytes: Uint8Array<ArrayBuffer>;
  count: number;
  payloadBytes: number;
}

/** A CopyData message begins with its type and its length. */
export const headerBytes = 5;

/** What a row holds beside its texts, its payload and what `bytesOfPrefix` counts: lengths, three fixed-width columns, a version. */
export const fixedBytes = 5 * 4 + 3 * 12 + 1;

const postgresEpochSeconds = 946_684_800;

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

/**
 * Puts columns one after the other, in their order; who calls it keeps to that. Grows when `bytes` was too low an estimate. What it
 * wrote lies in a buffer of the pool, to be given back when the rows are done with.
 */
export class RowWriter {
  #bytes: Uint8Array<ArrayBuffer>;
  #view: DataView;
  #at = headerBytes;
  #count = 0;
  #payloadBytes = 0;
  readonly #pool: BufferPool;
  readonly #prefix: Uint8Array;
  readonly #receivedSeconds: number;
  readonly #receivedMicroseconds: number;

  /** `receivedAt` in milliseconds since the Unix epoch. */
  constructor(pool: BufferPool, prefix: Uint8Array, receivedAt: number, bytes: number) {
    this.#pool = pool;
    this.#prefix = prefix;
    this.#receivedSeconds = Math.floor(receivedAt / 1000);
    this.#receivedMicroseconds = (receivedAt - this.#receivedSeconds * 1000) * 1000;
    this.#bytes = pool.take(headerBytes + bytes);
    this.#view = new DataView(this.#bytes.buffer, this.#bytes.byteOffset, this.#bytes.length);
  }

  /** Begins a row, with the two halves of its sequence; `bytes` is what its texts, attributes and payload take. */
  begin(high: number, low: number, bytes: number): void {
    this.#reserve(this.#prefix.length + fixedBytes + bytes);
    this.#bytes.set(this.#prefix, this.#at);
    this.#at += this.#prefix.length;
    this.#view.setInt32(this.#at, 8);
    this.#view.setInt32(this.#at + 4, high);
    this.#view.setUint32(this.#at + 8, low);
    this.#at += 12;
    this.#count++;
  }

  /** Text of a few bytes: they are valid UTF-8 without NUL. */
  text(source: Uint8Array, start: number, end: number): void {
    this.#view.setInt32(this.#at, end - start);
    this.#at += 4;
    for (let at = start; at < end; at++) this.#bytes[this.#at++] = source[at] as number;
  }

  /** `observed_at`, and `received_at` after it. Seconds since the Unix epoch; undefined for NULL. */
  moments(seconds: number | undefined, microseconds: number): void {
    if (seconds === undefined) {
      this.#view.setInt32(this.#at, -1);
      this.#at += 4;
    } else this.#moment(seconds, microseconds);
    this.#moment(this.#receivedSeconds, this.#receivedMicroseconds);
  }

  /** Attributes: the text of a JSON object. */
  attributes(json: Uint8Array, length: number): void {
    this.#view.setInt32(this.#at, length + 1);
    // jsonb is its version, 1, and the text.
    this.#bytes[this.#at + 4] = 1;
    this.#at += 5;
    for (let at = 0; at < length; at++) this.#bytes[this.#at++] = json[at] as number;
  }

  /** The payload, which ends the row. */
  payload(source: Uint8Array): void {
    this.#view.setInt32(this.#at, source.length);
    this.#bytes.set(source, this.#at + 4);
    this.#at += 4 + source.length;
    this.#payloadBytes += source.length;
  }

  /** All rows. */
  finish(): EncodedRows {
    return { bytes: this.#bytes.subarray(0, this.#at), count: this.#count, payloadBytes: this.#payloadBytes };
  }

  #moment(seconds: number, microseconds: number): void {
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
    const grown = this.#pool.take(Math.max(this.#at + bytes, this.#bytes.length * 2));
    grown.set(this.#bytes.subarray(0, this.#at));
    this.#pool.give(this.#bytes);
    this.#bytes = grown;
    this.#view = new DataView(grown.buffer, grown.byteOffset, grown.length);
  }
}
