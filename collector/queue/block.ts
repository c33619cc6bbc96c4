import { crc32 } from "node:zlib";
import { bytesOfEnvelope, encodeRecords, type MeasuredRecord } from "./envelope.ts";
import type { QueuedRecord } from "./record.ts";

/**
 * The concatenated envelopes of records with consecutive sequences, and their index: for each record its end offset and its CRC-32,
 * as two little-endian 32-bit numbers. Because of the index, a flipped bit costs one record and not those behind it.
 */
export interface Block {
  readonly index: Uint8Array;
  readonly envelopes: Uint8Array;
}

/** A record of a block. */
export interface BlockRecord extends QueuedRecord {
  readonly checksum: number;
  /** Whether its bytes have their checksum. */
  readonly isIntact: boolean;
}

const entryBytes = 8;

/** Encodes records from `firstSequence` on. Uses `scratch` if it is large enough: the block is then valid until its next use. */
export const encodeBlock = (records: readonly MeasuredRecord[], firstSequence: number, scratch?: Buffer): Block => {
  const { envelopes, ends } = encodeRecords(records, firstSequence, scratch);
  let start = 0;
  const entries = ends.map((end) => {
    const checksum = crc32(envelopes.subarray(start, end));
    start = end;
    return { end, checksum };
  });
  return { index: indexOf(entries), envelopes };
};

/** Builds a block of records that were read from another one. */
export const joinBlock = (records: readonly BlockRecord[]): Block => {
  let end = 0;
  const entries = records.map(({ envelope, checksum }) => {
    end += envelope.length;
    return { end, checksum };
  });
  return { index: indexOf(entries), envelopes: Buffer.concat(records.map(({ envelope }) => envelope)) };
};

/** Returns the records of a block, as views of it. Never throws, whatever its bytes. */
export const recordsOf = ({ index, envelopes }: Block, firstSequence: number): BlockRecord[] => {
  const view = new DataView(index.buffer, index.byteOffset, index.byteLength);
  const records: BlockRecord[] = [];
  let start = 0;
  for (let at = 0; at + entryBytes <= index.length; at += entryBytes) {
    const sequence = firstSequence + records.length;
    const end = view.getUint32(at, true);
    const checksum = view.getUint32(at + 4, true);
    const envelope = envelopes.subarray(start, end);
    const bytes = bytesOfEnvelope(envelope.length, sequence);
    // No envelope is empty. The CRC-32 of nothing is 0, so an index of zeros would pass and its records would vanish unnoticed.
    const isIntact = envelope.length > 0 && crc32(envelope) === checksum;
    records.push({ sequence, bytes, envelope, checksum, isIntact });
    start = end;
  }
  return records;
};

const indexOf = (entries: readonly { end: number; checksum: number }[]): Uint8Array => {
  const index = new DataView(new ArrayBuffer(entries.length * entryBytes));
  for (const [entry, { end, checksum }] of entries.entries()) {
    index.setUint32(entry * entryBytes, end, true);
    index.setUint32(entry * entryBytes + 4, checksum, true);
  }
  return new Uint8Array(index.buffer);
};
