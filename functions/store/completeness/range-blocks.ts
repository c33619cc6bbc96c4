import { sql } from "drizzle-orm";
import type { Executor } from "../database/database.ts";

/** A row of `ingest_block`. */
export interface RangeBlock {
  firstSequence: bigint;
  lastSequence: bigint;
  rawBytes: number;
  encoding: number;
  sha256: Uint8Array;
  /** The SHA-256 is of the data as stored, not of the encoded envelopes. */
  isStored: boolean;
  data: Uint8Array;
}

type BlockRow = {
  first_sequence: string;
  last_sequence: string;
  raw_bytes: number;
  encoding: number;
  sha256: Uint8Array;
  is_stored: boolean;
  data: Uint8Array;
};

/** Finds the first block of a queue's range of sequences that was received until `until`; undefined if there is none. */
export const findRangeBlock = async (
  db: Executor,
  {
    host,
    queueId,
    from,
    through,
    until,
  }: {
    host: string;
    queueId: Uint8Array;
    from: bigint;
    through: bigint;
    until: Date;
  },
): Promise<RangeBlock | undefined> => {
  const [row] = await db.execute<BlockRow>(sql`
    select first_sequence::text, last_sequence::text, raw_bytes, encoding,
      substr(digest, length(digest) - 31) as sha256, length(digest) > 32 as is_stored, data from ingest_block
    where host_id = ${host} and queue_id = decode(${queueId.toHex()}, 'hex') and first_sequence >= ${String(from)}::bigint
      and last_sequence <= ${String(through)}::bigint and received_at <= ${until.toISOString()}::timestamptz
    order by ingest_block.first_sequence limit 1`);
  return (
    row && {
      firstSequence: BigInt(row.first_sequence),
      lastSequence: BigInt(row.last_sequence),
      rawBytes: row.raw_bytes,
      encoding: row.encoding,
      sha256: row.sha256,
      isStored: row.is_stored,
      data: row.data,
    }
  );
};
