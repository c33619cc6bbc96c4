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
import { isInObject } from "../ingest/object-reference.ts";
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
  /** Stops reading after so many bytes of memory. */
  bytesMax: number;
}

/** The session settings of a reader, because the statistics of a growing partition are always old. */
export const readerSetup = `${setForSession(0)}; set enable_seqscan = off`;

/** The envelopes of a range, in no order, and the blocks whose envelopes are missing, because their data are damaged. */
export interface ReadEnvelopes {
  envelopes: StoredEnvelope[];
  damaged: DamagedBlock[];
}

/** A block whose data are in an object. */
type BlockInObject = StoredBlock & DamagedBlock & { digest: Uint8Array };

/** What the rows of a range have: the envelopes of blocks, and the blocks that are in objects. */
interface ReadRange extends ReadEnvelopes {
  inObjects: BlockInObject[];
}

/**
 * Returns the envelopes that the rows of a range have, and the blocks whose data `readObjects` reads; null, after reading at most `bytesMax`,
 * if they are more. Rejects when the database fails.
 */
export const readEnvelopes = (
  client: Client,
  range: EnvelopeRange,
  codec: Pick<BlockCodec, "decompress">,
): Promise<ReadRange | null> =>
  new Promise((resolve, reject) => {
    client.query(copyOut(range, codec, resolve, reject));
  });

/** Adds the envelopes of the blocks that are in objects. */
export const readObjects = async (
  { envelopes, damaged, inObjects }: ReadRange,
  codec: Pick<BlockCodec, "decompress">,
  objects: Pick<ObjectReader, "withData">,
): Promise<ReadEnvelopes> => {
  const blocks = await objects.withData(inObjects);
  for (const [index, block] of blocks.entries()) {
    try {
      if (block instanceof BlockCorrupt) throw block;
      for (const envelope of readStoredBlock(block, codec)) envelopes.push(envelope);
    } catch (cause) {
      if (!(cause instanceof BlockCorrupt)) throw cause;
      damaged.push(inObjects[index] as BlockInObject);
    }
  }
  return { envelopes, damaged };
};

const columns =
  "host_id, queue_id, first_sequence, last_sequence, envelopes, received_at, raw_bytes, encoding, data, digest";

const copyBlocks = ({ from, to }: EnvelopeRange) =>
  `copy (select ${columns} from ingest_block where xid >= ${from} and xid < ${to}) to stdout with (format binary)`;

const copyOut = (
  range: EnvelopeRange,
  codec: Pick<BlockCodec, "decompress">,
  resolve: (read: ReadRange | null) => void,
  reject: (cause: unknown) => void,
): Submittable => {
  const envelopes: StoredEnvelope[] = [];
  const damaged: DamagedBlock[] = [];
  const inObjects: BlockInObject[] = [];
  let bytes = 0;
  let isTooLarge = false;
  let areRows = false;
  let failure: unknown;
  return {
    submit: (connection: Connection) =>
      connection.query(`${copyBlocks(range)}; ${copyRows(range)}`),
    // PostgreSQL sends each row as one message; the first begins with the format's header.
    handleCopyData({ chunk }: { chunk: Buffer }, connection: Connection) {
      if (isTooLarge || failure !== undefined) return;
      try {
        const read = areRows ? readRow(chunk) : readBlock(chunk, codec, { damaged, inObjects });
        bytes += read.bytes + read.envelopes.length * objectBytes;
        if (bytes <= range.bytesMax) {
          for (const envelope of read.envelopes) envelopes.push(envelope);
          return;
        }
      } catch (cause) {
        failure = cause;
        return;
      }
      isTooLarge = true;
      envelopes.length = inObjects.length = 0;
      // Reading the rest would cost as much as storing it, so the connection is closed.
      connection.stream.destroy();
      resolve(null);
    },
    handleCommandComplete() {
      areRows = true;
    },
    handleError: (cause: Error) => reject(cause),
    handleReadyForQuery: () =>
      failure === undefined ? resolve({ envelopes, damaged, inObjects }) : reject(failure),
    ...unusedResults,
  } as Submittable;
};

const readRow = (chunk: Buffer): { bytes: number; envelopes: StoredEnvelope[] } => {
  const row = decodeRow(chunk);
  return { bytes: chunk.length, envelopes: row ? [row] : [] };
};

/**
 * Reads a block. Adds one with unreadable data to `damaged`: an export that stopped at it would never continue. Of one that is in an object,
 * counts the bytes that it will have.
 */
const readBlock = (
  chunk: Buffer,
  codec: Pick<BlockCodec, "decompress">,
  { damaged, inObjects }: Pick<ReadRange, "damaged" | "inObjects">,
): { bytes: number; envelopes: StoredEnvelope[] } => {
  const fields = createCopyFields(chunk);
  if (fields === undefined) return { bytes: 0, envelopes: [] };
  const place: DamagedBlock = {
    hostId: fields.text(),
    queueId: fields.bytes(),
    firstSequence: fields.bigint(),
    lastSequence: fields.bigint(),
    envelopes: fields.integer(),
    receivedAt: fields.time() ?? 0n,
  };
  const rawBytes = fields.integer();
  const encoding = fields.integer();
  const data = fields.bytes();
  if (isInObject({ encoding })) {
    inObjects.push({ ...place, rawBytes, encoding, data, digest: fields.bytes() });
    return { bytes: rawBytes + place.envelopes * objectBytes, envelopes: [] };
  }
  try {
    return {
      bytes: rawBytes,
      envelopes: readStoredBlock({ ...place, rawBytes, encoding, data }, codec),
    };
  } catch (cause) {
    if (!(cause instanceof BlockCorrupt)) throw cause;
    damaged.push(place);
    return { bytes: 0, envelopes: [] };
  }
};
