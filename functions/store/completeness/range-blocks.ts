import { sql } from "drizzle-orm";
import type { Executor } from "../database/database.ts";
import { asIs, type RowOf, readRow, timestamptz } from "../database/statements.ts";

/** A row of `ingest_block`. */
export type RangeBlock = RowOf<typeof blockColumns>;
const blockColumns = {
  firstSequence: BigInt,
  lastSequence: BigInt,
  rawBytes: Number,
  encoding: Number,
  sha256: asIs<Uint8Array>,
  /** The SHA-256 is of the data as stored, not of the encoded envelopes. */
  isStored: Boolean,
  data: asIs<Uint8Array>,
};

/** Finds the first block of a queue's range of sequences that was received until `until`; undefined if there is none. */
export const findRangeBlock = (
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
): Promise<RangeBlock | undefined> =>
  readRow(
    db,
    blockColumns,
    sql`
    select first_sequence, last_sequence, raw_bytes, encoding,
      substr(digest, length(digest) - 31) as sha256, length(digest) > 32 as is_stored, data from ingest_block
    where host_id = ${host} and queue_id = decode(${queueId.toHex()}, 'hex') and first_sequence >= ${from}::bigint
      and last_sequence <= ${through}::bigint and received_at <= ${timestamptz(until)}
    order by first_sequence limit 1`,
  );
