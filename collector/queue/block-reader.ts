import { type Block, entryBytes, isIntact, recordsOf } from "./block.ts";
import { sizeOfEnvelope } from "./envelope.ts";
import type { QueuedRecords } from "./record.ts";

/** Collects records from blocks, in order. */
export interface BlockReader {
  /** Takes the records of a block from sequence `from` on; false if the bounds are reached before its end. */
  take(block: Block, firstSequence: number, from: number): boolean;
  /** The records taken: an intact block gives one range, without an object for each record. */
  readonly found: QueuedRecords[];
  /** The sequences of the records whose checksums are wrong. */
  readonly corrupt: number[];
}

/** Makes a reader of records up to either bound; the first one also if it alone is over `bytesMax`. */
export const createBlockReader = (recordsMax: number, bytesMax: number): BlockReader => {
  const found: QueuedRecords[] = [];
  const corrupt: number[] = [];
  let records = 0;
  let bytes = 0;

  const admits = (size: number): boolean => {
    if (records > 0 && (records >= recordsMax || bytes + size > bytesMax)) return false;
    records += 1;
    bytes += size;
    return true;
  };

  const takeIntact = (
    { index, envelopes }: Block,
    firstSequence: number,
    from: number,
  ): boolean => {
    const ends = new DataView(index.buffer, index.byteOffset, index.byteLength);
    const endOf = (sequence: number): number =>
      sequence < firstSequence ? 0 : ends.getUint32((sequence - firstSequence) * entryBytes, true);
    const next = firstSequence + index.length / entryBytes;
    const start = endOf(from - 1);
    const bytesBefore = bytes;
    let end = start;
    let sequence = from;
    for (; sequence < next; sequence++) {
      const envelopeEnd = endOf(sequence);
      if (!admits(sizeOfEnvelope(envelopeEnd - end, sequence))) break;
      end = envelopeEnd;
    }
    if (sequence > from)
      found.push({
        firstSequence: from,
        lastSequence: sequence - 1,
        bytes: bytes - bytesBefore,
        envelopes: envelopes.subarray(start, end),
      });
    return sequence === next;
  };

  const takeEach = (block: Block, firstSequence: number, from: number): boolean => {
    for (const { sequence, bytes: size, envelope, isIntact: isRecordIntact } of recordsOf(
      block,
      firstSequence,
    )) {
      if (sequence < from) continue;
      if (!isRecordIntact) corrupt.push(sequence);
      else if (admits(size))
        found.push({
          firstSequence: sequence,
          lastSequence: sequence,
          bytes: size,
          envelopes: envelope,
        });
      else return false;
    }
    return true;
  };

  return {
    found,
    corrupt,
    take: (block, firstSequence, from) =>
      isIntact(block)
        ? takeIntact(block, firstSequence, from)
        : takeEach(block, firstSequence, from),
  };
};
