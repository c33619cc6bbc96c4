import type { DatabaseSync, SQLOutputValue } from "node:sqlite";
import {
  type Block,
  type BlockEncoder,
  type BlockRecord,
  createBlockMemory,
  entryBytes,
  isIntact,
  joinBlock,
  recordCount,
  recordsOf,
} from "./block.ts";
import { sizeOfEnvelope } from "./envelope.ts";
import { bytesOf, MalformedRowError, numberOf, readOldestAge } from "./format.ts";
import type { QueuedRecords } from "./record.ts";

/** The table `block`, which holds the records. Blocks do not overlap. Call its changing members inside a transaction. */
export type BlockTable = ReturnType<typeof createBlockTable>;

/** A row of the table. */
export interface BlockRow {
  readonly sequence: number;
  readonly last: number;
  readonly bytes: number;
  readonly ageMs: number;
  readonly block: Block;
}

/** Prepares the statements for an open database. */
export const createBlockTable = (database: DatabaseSync) => {
  const insertRow = database.prepare("INSERT INTO block VALUES (?, ?, ?, ?, ?, ?, ?)");
  const sumThrough = database.prepare(
    `SELECT coalesce(sum(last_sequence - sequence + 1), 0) AS records, coalesce(sum(bytes), 0) AS bytes FROM block
     WHERE sequence <= ?1 AND last_sequence <= ?1`,
  );
  const deleteRows = database.prepare(
    "DELETE FROM block WHERE sequence <= ?1 AND last_sequence <= ?1",
  );
  const deleteRow = database.prepare("DELETE FROM block WHERE sequence = ?");
  const selectAround = database.prepare(
    "SELECT * FROM (SELECT * FROM block WHERE sequence <= ?1 ORDER BY sequence DESC LIMIT 1) WHERE last_sequence >= ?1",
  );
  const selectFrom = database.prepare(
    `SELECT * FROM block
     WHERE sequence >= coalesce((SELECT max(sequence) FROM block WHERE sequence <= ?1), 0) AND last_sequence >= ?1
     ORDER BY sequence`,
  );

  const selectSince = database.prepare(
    "SELECT sequence FROM block WHERE age_ms >= ? ORDER BY sequence LIMIT 1",
  );

  const encodeBlocks = createBlockMemory();

  /** The last row that was read: a frame often ends inside a block, where the next one begins. Its reader may have freed it. */
  let recent: BlockRow | undefined;

  const insertBlock = (
    { index, envelopes, checksum }: Block,
    first: number,
    last: number,
    bytes: number,
    ageMs: number,
  ): void => {
    insertRow.run(first, last, bytes, ageMs, checksum, index, envelopes);
  };

  const rowAround = (sequence: number): BlockRow | null => {
    const row = selectAround.get(sequence);
    return row === undefined ? null : rowOf(row);
  };

  /** Returns the rows that have records from `sequence` on, in order. */
  const rowsFrom = function* (sequence: number): Generator<BlockRow> {
    let last = 0;
    if (
      recent !== undefined &&
      !isFreed(recent.block) &&
      recent.sequence <= sequence &&
      sequence <= recent.last
    ) {
      last = recent.last;
      yield recent;
    }
    for (const found of selectFrom.iterate(Math.max(sequence, last + 1))) {
      const row = rowOf(found);
      if (row.sequence <= last)
        throw new MalformedRowError("the blocks overlap or are out of order");
      last = row.last;
      recent = row;
      yield row;
    }
  };

  /** Replaces a block by one block for each run of kept records. Returns the sum of the removed sizes. */
  const reduce = (row: BlockRow, ...kept: (readonly BlockRecord[])[]): number => {
    recent = undefined;
    deleteRow.run(row.sequence);
    let removed = row.bytes;
    for (const records of kept) {
      const first = records[0];
      const last = records.at(-1);
      if (first === undefined || last === undefined) continue;
      const bytes = sumBytes(records);
      insertBlock(joinBlock(records), first.sequence, last.sequence, bytes, row.ageMs);
      removed -= bytes;
    }
    return removed;
  };

  return {
    /** Returns the number of all records, and the sum of their sizes. */
    totals: () => {
      // The length of a blob is in its row: no block is read.
      const sums = `coalesce(sum(length(record_index)), 0) / ${entryBytes} AS records, coalesce(sum(bytes), 0) AS bytes`;
      const row = database.prepare(`SELECT ${sums} FROM block`).get();
      return { records: numberOf(row?.records), bytes: numberOf(row?.bytes) };
    },
    /** Stores what is added to the encoder, under consecutive sequences from `firstSequence`. */
    insertFrom: (firstSequence: number, ageMs: number): BlockEncoder =>
      encodeBlocks(firstSequence, (block, first, last, bytes) =>
        insertBlock(block, first, last, bytes, ageMs),
      ),
    /** Removes every record at or below `sequence`; returns their number and the sum of their sizes. */
    deleteThrough: (sequence: number) => {
      const sums = sumThrough.get(sequence);
      const removed = { records: numberOf(sums?.records), bytes: numberOf(sums?.bytes) };
      deleteRows.run(sequence);
      if (recent !== undefined && recent.last <= sequence) recent = undefined;
      const row = rowAround(sequence);
      if (row === null) return removed;
      const kept = recordsOf(row.block, row.sequence).filter(
        (record) => record.sequence > sequence,
      );
      removed.records += row.last - row.sequence + 1 - kept.length;
      removed.bytes += reduce(row, kept);
      return removed;
    },
    /** Removes and returns one record, corrupt or not; null if there is none. */
    take: (sequence: number): BlockRecord | null => {
      const row = rowAround(sequence);
      if (row === null) return null;
      const records = recordsOf(row.block, row.sequence);
      const taken = records[sequence - row.sequence];
      if (taken === undefined) return null;
      const before = records.slice(0, sequence - row.sequence);
      const after = records.slice(sequence - row.sequence + 1);
      return { ...taken, bytes: reduce(row, before, after) };
    },
    /**
     * Returns records above `sequence` in order, up to either bound, and always the first one. A record whose checksum is wrong is left
     * out, and its sequence is in `corrupt`.
     */
    read: (
      sequence: number,
      recordsMax: number,
      bytesMax: number,
    ): Pick<BlockReader, "found" | "corrupt"> => {
      const reader = createBlockReader(recordsMax, bytesMax);
      for (const row of rowsFrom(sequence + 1))
        if (!reader.take(row.block, row.sequence, Math.max(sequence + 1, row.sequence))) break;
      return reader;
    },
    /** Returns the `ageMs` of the oldest record; null if there is none. */
    oldestAgeMs: () => readOldestAge(database),
    /** Returns the first sequence that was stored at or after `ageMs`; null if there is none. */
    firstSequenceSince: (ageMs: number) => {
      const row = selectSince.get(ageMs);
      return row === undefined ? null : numberOf(row.sequence);
    },
  };
};

/** Returns a row; throws `MalformedRowError` unless a queue can have written it. */
export const rowOf = (row: Record<string, SQLOutputValue>): BlockRow => {
  const sequence = numberOf(row.sequence);
  const last = numberOf(row.last_sequence);
  const block = {
    index: bytesOf(row.record_index),
    envelopes: bytesOf(row.envelopes),
    checksum: numberOf(row.checksum),
  };
  if (recordCount(block) !== last - sequence + 1)
    throw new MalformedRowError("a block does not have the records that its row names");
  return { sequence, last, bytes: numberOf(row.bytes), ageMs: numberOf(row.age_ms), block };
};

const isFreed = ({ envelopes }: Block): boolean => envelopes.length === 0;

const sumBytes = (records: readonly { readonly bytes: number }[]): number =>
  records.reduce((sum, { bytes }) => sum + bytes, 0);

/** Collects records from blocks, in order. */
interface BlockReader {
  /** Takes the records of a block from sequence `from` on; false if the bounds are reached before its end. */
  take(block: Block, firstSequence: number, from: number): boolean;
  /** The records taken: an intact block gives one range, without an object for each record. */
  readonly found: QueuedRecords[];
  /** The sequences of the records whose checksums are wrong. */
  readonly corrupt: number[];
}

/** Creates a reader of records up to either bound; the first one also if it alone is over `bytesMax`. */
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
