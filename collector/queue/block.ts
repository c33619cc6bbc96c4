import { crc32 } from "node:zlib";
import { bytesOfEnvelope, encodeEnvelopes, type MeasuredRecord } from "./envelope.ts";
import type { QueuedRecord } from "./record.ts";

/**
 * A block: the envelopes of records whose sequences follow each other, one after the other, and an index of them, which says for each
 * where it ends and what its checksum is, as two little-endian numbers of 32 bits. With an index, a bit that is turned over harms one
 * record and not the way to those behind it.
 */
export interface Block {
  readonly index: Uint8Array;
  readonly envelopes: Uint8Array;
}

/** A record of a block, and whether it is as it was stored. */
export interface BlockRecord extends QueuedRecord {
  readonly checksum: number;
  readonly isIntact: boolean;
}

const entryBytes = 8;

/** A block of these records, from `firstSequence` on; in `scratch`, until that is used again, if it is given and large enough. */
export const encodeBlock = (records: readonly MeasuredRecord[], firstSequence: number, scratch?: Buffer): Block => {
  const { envelopes, ends } = encodeEnvelopes(records, firstSequence, scratch);
  let start = 0;
  const entries = ends.map((end) => {
    const checksum = crc32(envelopes.subarray(start, end));
    start = end;
    return { end, checksum };
  });
  return { index: indexOf(entries), envelopes };
};

/** A block of what is left of another one. */
export const joinBlock = (records: readonly BlockRecord[]): Block => {
  let end = 0;
  const entries = records.map(({ envelope, checksum }) => {
    end += envelope.length;
    return { end, checksum };
  });
  return { index: indexOf(entries), envelopes: Buffer.concat(records.map(({ envelope }) => envelope)) };
};

/** The records of a block, as views of it, whatever has become of it. */
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
    // No envelope is empty, and the checksum of nothing is 0: an index of zeros would pass, and its records be gone without a word.
    const isIntact = envelope.length > 0 && crc32(envelope) === checksum;
    records.push({ sequence, bytes, envelope, checksum, isIntact });
    start = end;
  }
  return records;
};

const indexOf = (entries: readonly { end: number; checksum: number }[]): Uint8Array => {
  const index = new DataView(new ArrayBuffer(entries.length * entryBytes));
  for (const [place, { end, checksum }] of entries.entries()) {
    index.setUint32(place * entryBytes, end, true);
    index.setUint32(place * entryBytes + 4, checksum, true);
  }
  return new Uint8Array(index.buffer);
};
