import { sql } from "drizzle-orm";
import type { Executor } from "../database/database.ts";

/** A stored block, as `ingest_block` has it. */
export interface RangeBlock {
  firstSequence: bigint;
  lastSequence: bigint;
  rawBytes: number;
  encoding: number;
  digest: Uint8Array;
  data: Uint8Array;
}

type BlockRow = {
  first_sequence: string;
  last_sequence: string;
  raw_bytes: number;
  encoding: number;
  digest: Uint8Array;
  data: Uint8Array;
};

/** Finds the first block of a range of sequences of a queue, which was received until `until`; undefined if there is none. */
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
    select first_sequence::text, last_sequence::text, raw_bytes, encoding, digest, data from ingest_block
    where host_id = ${host} and queue_id = decode(${queueId.toHex()}, 'hex') and first_sequence >= ${String(from)}::bigint
      and last_sequence <= ${String(through)}::bigint and received_at <= ${until.toISOString()}::timestamptz
    order by ingest_block.first_sequence limit 1`);
  return (
    row && {
      firstSequence: BigInt(row.first_sequence),
      lastSequence: BigInt(row.last_sequence),
      rawBytes: row.raw_bytes,
      encoding: row.encoding,
      digest: row.digest,
      data: row.data,
    }
  );
};
