import type { DatabaseSync, SQLOutputValue } from "node:sqlite";
import { type Block, type BlockRecord, encodeBlock, joinBlock, recordsOf } from "./block.ts";
import type { MeasuredRecord } from "./envelope.ts";
import { bytesOf, MalformedRowError, numberOf } from "./format.ts";
import type { QueuedRecord } from "./record.ts";

/** The table `block`, which holds the records. Blocks do not overlap. Call its changing members inside a transaction. */
export interface BlockTable {
  /** Stores the records under consecutive sequences from `firstSequence`. */
  insert(records: readonly MeasuredRecord[], firstSequence: number, ageMs: number): void;
  /** Removes every record at or below `sequence`; returns their number and the sum of their sizes. */
  deleteThrough(sequence: number): { records: number; bytes: number };
  /** Removes and returns one record, corrupt or not; null if there is none. */
  take(sequence: number): QueuedRecord | null;
  /**
   * Returns records above `sequence` in order, up to either bound, and always the first one. A record whose checksum is wrong is left
   * out, and its sequence is in `corrupt`.
   */
  read(sequence: number, recordsMax: number, bytesMax: number): { records: QueuedRecord[]; corrupt: number[] };
  /** Returns the `ageMs` of the oldest record; null if there is none. */
  oldestAgeMs(): number | null;
  /** Returns the first sequence that was stored at or after `ageMs`; null if there is none. */
  firstSequenceSince(ageMs: number): number | null;
}

interface Row {
  readonly sequence: number;
  readonly bytes: number;
  readonly ageMs: number;
  readonly records: readonly BlockRecord[];
}

/**
 * Records of one transaction share blocks up to this size: few rows for many lines, and little to rewrite when core acknowledges a
 * part of one.
 */
export const blockBytesMax = 64 * 1024;

/** Prepares the statements for an open database. */
export const createBlockTable = (database: DatabaseSync): BlockTable => {
  const insertRow = database.prepare("INSERT INTO block VALUES (?, ?, ?, ?, ?, ?)");
  const sumThrough = database.prepare(
    `SELECT coalesce(sum(last_sequence - sequence + 1), 0) AS records, coalesce(sum(bytes), 0) AS bytes FROM block
     WHERE sequence <= ?1 AND last_sequence <= ?1`,
  );
  const deleteRows = database.prepare("DELETE FROM block WHERE sequence <= ?1 AND last_sequence <= ?1");
  const deleteRow = database.prepare("DELETE FROM block WHERE sequence = ?");
  const selectAround = database.prepare(
    "SELECT * FROM (SELECT * FROM block WHERE sequence <= ?1 ORDER BY sequence DESC LIMIT 1) WHERE last_sequence >= ?1",
  );
  const selectFrom = database.prepare(
    `SELECT * FROM block
     WHERE sequence >= coalesce((SELECT max(sequence) FROM block WHERE sequence <= ?1), 0) AND last_sequence >= ?1
     ORDER BY sequence`,
  );
  const selectOldest = database.prepare("SELECT age_ms FROM block ORDER BY sequence LIMIT 1");
  const selectSince = database.prepare("SELECT sequence FROM block WHERE age_ms >= ? ORDER BY sequence LIMIT 1");

  /** One buffer for all blocks: SQLite copies it, and garbage by the megabyte costs more than the encoding. */
  const scratch = Buffer.allocUnsafeSlow(blockBytesMax);

  const insertBlock = (
    { index, envelopes }: Block,
    first: number,
    last: number,
    bytes: number,
    ageMs: number,
  ): void => {
    insertRow.run(first, last, bytes, ageMs, index, envelopes);
  };

  const rowAround = (sequence: number): Row | null => {
    const row = selectAround.get(sequence);
    return row === undefined ? null : rowOf(row);
  };

  /** Replaces a block by one block for each run of kept records. Returns the sum of the removed sizes. */
  const reduce = (row: Row, ...kept: (readonly BlockRecord[])[]): number => {
    deleteRow.run(row.sequence);
    let removed = row.bytes;
    for (const records of kept) {
      const [first, last] = [records[0], records.at(-1)];
      if (first === undefined || last === undefined) continue;
      const bytes = sumBytes(records);
      insertBlock(joinBlock(records), first.sequence, last.sequence, bytes, row.ageMs);
      removed -= bytes;
    }
    return removed;
  };

  return {
    insert: (records, firstSequence, ageMs) =>
      insertBlock(
        encodeBlock(records, firstSequence, scratch),
        firstSequence,
        firstSequence + records.length - 1,
        sumBytes(records),
        ageMs,
      ),
    deleteThrough: (sequence) => {
      const sums = sumThrough.get(sequence);
      const removed = { records: numberOf(sums?.records), bytes: numberOf(sums?.bytes) };
      deleteRows.run(sequence);
      const row = rowAround(sequence);
      if (row === null) return removed;
      const kept = row.records.filter((record) => record.sequence > sequence);
      removed.records += row.records.length - kept.length;
      removed.bytes += reduce(row, kept);
      return removed;
    },
    take: (sequence) => {
      const row = rowAround(sequence);
      const taken = row?.records[sequence - row.sequence];
      if (row === null || taken === undefined) return null;
      const before = row.records.slice(0, sequence - row.sequence);
      const after = row.records.slice(sequence - row.sequence + 1);
      return { sequence, envelope: taken.envelope, bytes: reduce(row, before, after) };
    },
    read: (sequence, recordsMax, bytesMax) => {
      const records: QueuedRecord[] = [];
      const corrupt: number[] = [];
      let last = 0;
      let bytes = 0;
      for (const found of selectFrom.iterate(sequence + 1)) {
        const row = rowOf(found);
        if (row.sequence <= last) throw new MalformedRowError("the blocks overlap or are out of order");
        for (const record of row.records) {
          last = record.sequence;
          if (last <= sequence) continue;
          bytes += record.bytes;
          if (records.length > 0 && (records.length >= recordsMax || bytes > bytesMax)) return { records, corrupt };
          if (record.isIntact) records.push(record);
          else corrupt.push(last);
        }
      }
      return { records, corrupt };
    },
    oldestAgeMs: () => {
      const row = selectOldest.get();
      return row === undefined ? null : numberOf(row.age_ms);
    },
    firstSequenceSince: (ageMs) => {
      const row = selectSince.get(ageMs);
      return row === undefined ? null : numberOf(row.sequence);
    },
  };
};

const rowOf = (row: Record<string, SQLOutputValue>): Row => {
  const [sequence, last] = [numberOf(row.sequence), numberOf(row.last_sequence)];
  const records = recordsOf({ index: bytesOf(row.record_index), envelopes: bytesOf(row.envelopes) }, sequence);
  if (records.length !== last - sequence + 1)
    throw new MalformedRowError("a block does not have the records that its row names");
  return { sequence, bytes: numberOf(row.bytes), ageMs: numberOf(row.age_ms), records };
};

const sumBytes = (records: readonly { readonly bytes: number }[]): number =>
  records.reduce((sum, { bytes }) => sum + bytes, 0);
