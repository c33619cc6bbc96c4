import { crc32 } from "node:zlib";
import { overheadBytes, sizeOfEnvelope } from "./envelope.ts";
import type { EnvelopeWriter } from "./envelope-writer.ts";
import type { RecordBatch } from "./record.ts";

/**
 * The concatenated envelopes of records with consecutive sequences, and their index: for each record its end offset and its CRC-32,
 * as two little-endian 32-bit numbers. Because of the index, a flipped bit costs one record and not those behind it. `checksum` is
 * the CRC-32 of the index and the envelopes: if it is right, nothing else needs a check.
 */
export interface Block {
  readonly index: Uint8Array;
  readonly envelopes: Uint8Array;
  readonly checksum: number;
}

/** A record of a block. */
export interface BlockRecord {
  readonly sequence: number;
  readonly bytes: number;
  readonly envelope: Uint8Array;
  readonly checksum: number;
  /** Whether its bytes have their checksum. */
  readonly isIntact: boolean;
}

/** The size of an index entry. */
export const entryBytes = 8;

/**
 * Records of one transaction share blocks up to this size: few rows for many lines, and little to rewrite when core acknowledges a
 * part of one.
 */
const blockBytesMax = 64 * 1024;

/** Encodes the records of one transaction into blocks. */
export interface BlockEncoder {
  /** Encodes record `index` of a batch under the next sequence. */
  add(batch: RecordBatch, index: number): void;
  /** Passes on the last block. */
  end(): void;
}

/**
 * Creates encoders that use the same memory for all blocks, one transaction after the other: SQLite copies it, and garbage by the
 * megabyte costs more than the encoding.
 */
export const createBlockMemory = () => {
  const scratch = Buffer.allocUnsafeSlow(blockBytesMax);
  const scratchIndex = Buffer.allocUnsafeSlow((blockBytesMax / overheadBytes) * entryBytes);

  /** Passes each block, with the sequence and the summed sizes of its records, to `store`, which must not keep it. */
  return (
    firstSequence: number,
    store: (block: Block, first: number, last: number, bytes: number) => void,
  ): BlockEncoder => {
    let first = firstSequence;
    let next = firstSequence;
    let bytes = 0;
    const writer: EnvelopeWriter = { buffer: scratch, at: 0 };
    const end = () => {
      if (next === first) return;
      const index = scratchIndex.subarray(0, (next - first) * entryBytes);
      store(blockOf(index, writer.buffer.subarray(0, writer.at)), first, next - 1, bytes);
      first = next;
      bytes = 0;
      writer.buffer = scratch;
      writer.at = 0;
    };
    return {
      add: (batch, index) => {
        const size = batch.sizeOf(index);
        if (bytes + size > blockBytesMax) end();
        if (size > blockBytesMax) writer.buffer = Buffer.allocUnsafeSlow(size);
        const start = writer.at;
        batch.write(writer, index, next);
        const entry = (next - first) * entryBytes;
        scratchIndex.writeUInt32LE(writer.at, entry);
        scratchIndex.writeUInt32LE(crc32(writer.buffer.subarray(start, writer.at)), entry + 4);
        next += 1;
        bytes += size;
      },
      end,
    };
  };
};

const blockOf = (index: Uint8Array, envelopes: Uint8Array): Block => ({
  index,
  envelopes,
  checksum: checksumOf(index, envelopes),
});

/** Reports whether all of a block is as it was stored. */
export const isIntact = ({ index, envelopes, checksum }: Block): boolean =>
  checksumOf(index, envelopes) === checksum;

/** Returns how many records a block has. */
export const recordCount = ({ index }: Pick<Block, "index">): number => index.length / entryBytes;

const checksumOf = (index: Uint8Array, envelopes: Uint8Array): number =>
  crc32(envelopes, crc32(index));

/** Builds a block of records that were read from another one. */
export const joinBlock = (records: readonly BlockRecord[]): Block => {
  const index = Buffer.alloc(records.length * entryBytes);
  let end = 0;
  for (const [entry, { envelope, checksum }] of records.entries()) {
    end += envelope.length;
    index.writeUInt32LE(end, entry * entryBytes);
    index.writeUInt32LE(checksum, entry * entryBytes + 4);
  }
  return blockOf(index, Buffer.concat(records.map(({ envelope }) => envelope)));
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
    const bytes = sizeOfEnvelope(envelope.length, sequence);
    // No envelope is empty. The CRC-32 of nothing is 0, so an index of zeros would pass and its records would vanish unnoticed.
    const isIntact = envelope.length > 0 && crc32(envelope) === checksum;
    records.push({ sequence, bytes, envelope, checksum, isIntact });
    start = end;
  }
  return records;
};
