/**
 * Reads envelopes in the order of their commits. A reader that has everything below a position `from` reads the blocks with `from <= xid <
 * to`, where `to` is at most the oldest transaction id in use: every transaction below it has ended, so no block below it can appear later.
 * Ids rise with the sequence in each queue (commit-batch.ts), so a range of them never has an envelope without those before it. No clock
 * decides what is read: every partition is searched, by its index on `xid`.
 *
 * Reads binary COPY (PostgreSQL's manual, "COPY", "Binary Format"): as text, the data would take twice the size.
 */
import type { Client, Connection, Submittable } from "pg";
import { setForSession } from "../database/connection-settings.ts";
import { createCopyFields } from "../database/copy-fields.ts";
import { unusedResults } from "../ingest/copy-transaction.ts";
import type { ObjectReader } from "../ingest/object-data.ts";
import {
  type BlockCodec,
  BlockCorrupt,
  type DamagedBlock,
  objectBytes,
  readStoredBlock,
  type StoredBlock,
  type StoredEnvelope,
} from "../ingest/stored-envelope.ts";
import { copyRows, decodeRow } from "../rows/read-rows.ts";

/** The envelopes to read. */
interface EnvelopeRange {
  from: bigint;
  to: bigint;
  /** Stops reading at more envelopes than these would take of memory. */
  bytesMax: number;
}

/** The session settings of a reader, because the statistics of a growing partition are always old. */
export const readerSetup = `${setForSession(0)}; set enable_seqscan = off`;

/** Envelopes of a queue as they are stored, which takes a tenth of the memory that they take unpacked. */
export interface PackedBlock extends DamagedBlock {
  /** The memory that the envelopes take unpacked. */
  bytes: number;
  /** Returns the envelopes. Throws `BlockCorrupt`. */
  unpack(): StoredEnvelope[];
}

/** A row of `ingest_block`, whose data may be in an object. */
type BlockRow = StoredBlock &
  Omit<PackedBlock, "unpack"> & {
    digest: Uint8Array;
  };

/** What the rows of a range have, in no order: blocks, and envelopes that an earlier version stored as rows. */
interface ReadRange {
  blocks: BlockRow[];
  rows: PackedBlock[];
}

/** Returns the rows of a range; null, after reading at most `bytesMax`, if they are more. Rejects when the database fails. */
export const readBlocks = (client: Client, range: EnvelopeRange): Promise<ReadRange | null> =>
  new Promise((resolve, reject) => {
    client.query(copyOut(range, resolve, reject));
  });

/** Reads the data of the blocks that are in objects. A block whose data are damaged throws when it is unpacked. */
export const packBlocks = async (
  { blocks, rows }: ReadRange,
  {
    codec,
    objects,
  }: { codec: Pick<BlockCodec, "decompress">; objects: Pick<ObjectReader, "withData"> },
): Promise<PackedBlock[]> => {
  const read = await objects.withData(blocks);
  const unpack = (block: BlockRow | BlockCorrupt) => {
    if (block instanceof BlockCorrupt) throw block;
    return readStoredBlock(block, codec);
  };
  return [
    ...rows,
    ...blocks.map((block, index) => ({ ...block, unpack: () => unpack(read[index] ?? block) })),
  ];
};

const columns =
  "host_id, queue_id, first_sequence, last_sequence, envelopes, received_at, payload_bytes, raw_bytes, encoding, data, digest";

const copyBlocks = ({ from, to }: EnvelopeRange) =>
  `copy (select ${columns} from ingest_block where xid >= ${from} and xid < ${to}) to stdout with (format binary)`;

const copyOut = (
  range: EnvelopeRange,
  resolve: (read: ReadRange | null) => void,
  reject: (cause: unknown) => void,
): Submittable => {
  const read: ReadRange = { blocks: [], rows: [] };
  let bytes = 0;
  let areRows = false;
  let failure: unknown;
  const addRow = (chunk: Buffer): number => {
    const block = areRows ? packRow(chunk) : decodeBlock(chunk);
    if (block === undefined) return 0;
    if ("data" in block) read.blocks.push(block);
    else read.rows.push(block);
    return block.bytes;
  };
  return {
    submit: (connection: Connection) =>
      connection.query(`${copyBlocks(range)}; ${copyRows(range)}`),
    // PostgreSQL sends each row as one message; the first begins with the format's header.
    handleCopyData({ chunk }: { chunk: Buffer }, connection: Connection) {
      if (bytes > range.bytesMax || failure !== undefined) return;
      try {
        bytes += addRow(chunk);
      } catch (cause) {
        failure = cause;
      }
      if (bytes <= range.bytesMax) return;
      // Reading the rest would cost as much as storing it, so the connection is closed.
      connection.stream.destroy();
      resolve(null);
    },
    handleCommandComplete() {
      areRows = true;
    },
    handleError: (cause: Error) => reject(cause),
    handleReadyForQuery: () => (failure === undefined ? resolve(read) : reject(failure)),
    ...unusedResults,
  } as Submittable;
};

const bytesOf = (payloadBytes: number, envelopes: number) => payloadBytes + envelopes * objectBytes;

const packRow = (chunk: Buffer): PackedBlock | undefined => {
  const row = decodeRow(chunk);
  return (
    row && {
      ...row,
      firstSequence: row.sequence,
      lastSequence: row.sequence,
      envelopes: 1,
      bytes: bytesOf(row.payload.length, 1),
      unpack: () => [row],
    }
  );
};

const decodeBlock = (chunk: Buffer): BlockRow | undefined => {
  const fields = createCopyFields(chunk);
  if (fields === undefined) return undefined;
  const hostId = fields.text();
  const queueId = fields.bytes();
  const firstSequence = fields.bigint();
  const lastSequence = fields.bigint();
  const envelopes = fields.integer();
  return {
    hostId,
    queueId,
    firstSequence,
    lastSequence,
    envelopes,
    receivedAt: fields.time() ?? 0n,
    bytes: bytesOf(fields.integer(), envelopes),
    rawBytes: fields.integer(),
    encoding: fields.integer(),
    data: fields.bytes(),
    digest: fields.bytes(),
  };
};
