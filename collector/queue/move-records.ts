import type { DatabaseSync, SQLOutputValue } from "node:sqlite";
import { crc32 } from "node:zlib";
import { type BlockRecord, encodeBlock, joinBlock, recordsOf } from "./block.ts";
import { measureRecord } from "./envelope.ts";

/** Of one transaction, as a full disk has room for little more than it holds; and of one block. */
const movedBytesMax = 4 * 1024 * 1024;
const blockBytesMax = 64 * 1024;

/** Moves the records that have a row each, as in formats 1 to 3, into blocks. Goes on where it was cut off; changes nothing without any. */
export const moveRecords = (database: DatabaseSync): void => {
  if (database.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'record'").get() === undefined) return;
  while (moveOldest(database)) {}
  database.exec("DROP TABLE record");
};

/** False if there are no more. */
const moveOldest = (database: DatabaseSync): boolean => {
  const insert = database.prepare("INSERT INTO block VALUES (?, ?, ?, ?, ?, ?)");
  let ageMs = 0;
  let records: BlockRecord[] = [];
  let bytes = 0;
  let bytesBefore = 0;
  let bytesAfter = 0;
  let last = 0;
  const write = () => {
    const [first] = records;
    if (first === undefined) return;
    const { index, envelopes } = joinBlock(records);
    insert.run(first.sequence, last, bytes, ageMs, index, envelopes);
    bytesAfter += bytes;
    records = [];
    bytes = 0;
  };
  database.exec("BEGIN IMMEDIATE");
  for (const row of database.prepare("SELECT * FROM record ORDER BY sequence").iterate()) {
    const record = recordOf(row);
    if (record.sequence !== last + 1 || row.age_ms !== ageMs || bytes + record.bytes > blockBytesMax) write();
    ageMs = Number(row.age_ms);
    records.push(record);
    bytes += record.bytes;
    last = record.sequence;
    bytesBefore += Number(row.bytes);
    if (bytesBefore > movedBytesMax) break;
  }
  write();
  database.prepare("DELETE FROM record WHERE sequence <= ?").run(last);
  database.prepare("UPDATE state SET bytes = bytes + ?").run(bytesAfter - bytesBefore);
  database.exec("COMMIT");
  return last > 0;
};

/** A record that was damaged stays so: it gets a checksum that it does not have. */
const recordOf = (row: Record<string, SQLOutputValue>): BlockRecord => {
  const sequence = Number(row.sequence);
  const text = String(row.attributes);
  const payload = row.payload instanceof Uint8Array ? row.payload : new Uint8Array();
  const attributes = parseAttributes(text);
  const checksum = crc32(payload, crc32(text, sequence >>> 0));
  // Formats before the third have no checksums.
  const isIntact = attributes !== null && (row.checksum ?? checksum) === checksum;
  const measured = measureRecord({
    kind: String(row.kind),
    observedAtMs: Number(row.observed_at_ms),
    source: String(row.source),
    attributes: attributes ?? {},
    payload,
  });
  const [record] = recordsOf(encodeBlock([measured], sequence), sequence);
  if (record === undefined) throw new TypeError("a block of one record has one");
  return isIntact ? record : { ...record, checksum: ~record.checksum >>> 0 };
};

const parseAttributes = (text: string): Record<string, string> | null => {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
};
