/**
 * Finds and reads the blocks of one host by the time of receipt. Statements are short, and each reads one block: a reader occupies a
 * connection for milliseconds at a time, and uses no more memory than a block.
 */

import { and, type SQL, sql } from "drizzle-orm";
import type { Executor } from "../database/database.ts";
import {
  asDate,
  asIs,
  orNull,
  readOne,
  readRow,
  readRows,
  timestamptz,
} from "../database/statements.ts";
import type { ObjectReader } from "./object-data.ts";
import {
  type BlockCodec,
  BlockCorrupt,
  type DamagedBlock,
  readCheckedBlock,
  type StoredEnvelope,
} from "./stored-envelope.ts";

/** Selects telemetry of a host: received from `from` on, and before `to`. */
export interface HostRange {
  hostId: string;
  from: Date | null;
  to: Date | null;
  /** Only of this kind. */
  kind: string | null;
}

/** The position of a block, and its contents. */
export interface BlockPlace extends DamagedBlock {
  /** `receivedAt` as PostgreSQL writes it: only this text finds the block again. */
  receivedText: string;
  kinds: readonly string[];
}

/** Selects blocks of a range. */
export interface BlockSearch {
  order: "oldest" | "newest";
  limit: number;
  /** After this position. */
  beyond?: BlockPlace | undefined;
  /** Up to and including this position. */
  upTo?: BlockPlace | undefined;
  /** `from <= xid < to`. */
  xids?: { from: bigint | null; to: bigint } | undefined;
}

const placeColumns = {
  receivedAt: BigInt,
  receivedText: String,
  queueId: asIs<Uint8Array>,
  firstSequence: BigInt,
  lastSequence: BigInt,
  envelopes: Number,
  kinds: asIs<string[]>,
};

const key = sql`(received_at, queue_id, first_sequence)`;
const keyOf = ({ receivedText, queueId, firstSequence }: BlockPlace): SQL =>
  sql`(${receivedText}::timestamptz, ${bytea(queueId)}, ${firstSequence}::bigint)`;
const bytea = (bytes: Uint8Array): SQL => sql`decode(${bytes.toHex()}, 'hex')`;
/** Returns the condition of a range: its host and its times. */
export const isInRange = ({ hostId, from, to }: Pick<HostRange, "hostId" | "from" | "to">) =>
  and(
    sql`host_id = ${hostId}`,
    from ? sql`received_at >= ${timestamptz(from)}` : undefined,
    to ? sql`received_at < ${timestamptz(to)}` : undefined,
  );

/** Finds the positions of blocks, by the index on host and time of receipt. */
export const findBlockPlaces = async (
  db: Pick<Executor, "execute">,
  range: HostRange,
  { order, limit, beyond, upTo, xids }: BlockSearch,
): Promise<BlockPlace[]> => {
  const isOldest = order === "oldest";
  const direction = sql.raw(isOldest ? "asc" : "desc");
  const isWanted = and(
    isInRange(range),
    range.kind === null ? undefined : sql`${range.kind} = any(kinds)`,
    // Also the first column alone, which bounds the scan of the index.
    beyond &&
      sql`received_at ${sql.raw(isOldest ? ">=" : "<=")} ${beyond.receivedText}::timestamptz`,
    beyond && sql`${key} ${sql.raw(isOldest ? ">" : "<")} ${keyOf(beyond)}`,
    upTo && sql`received_at <= ${upTo.receivedText}::timestamptz and ${key} <= ${keyOf(upTo)}`,
    xids && sql`xid < ${xids.to}::bigint`,
    xids && xids.from !== null ? sql`xid >= ${xids.from}::bigint` : undefined,
  );
  // Not by the result's `received_at`, for which there is no index.
  const rows = await readRows(
    db,
    placeColumns,
    sql`
    select (extract(epoch from received_at) * 1e6)::bigint as received_at, received_at::text as received_text, queue_id, first_sequence,
      last_sequence, envelopes, kinds
    from ingest_block b where ${isWanted}
    order by b.received_at ${direction}, queue_id ${direction}, first_sequence ${direction} limit ${limit}`,
  );
  return rows.map((row) => ({ ...row, hostId: range.hostId }));
};

const blockColumns = {
  rawBytes: Number,
  encoding: Number,
  data: asIs<Uint8Array>,
  digest: asIs<Uint8Array>,
};

/** Reads a block; none if retention has dropped it. Throws `BlockCorrupt`. */
export const readBlockAt = async (
  {
    db,
    codec,
    objects,
  }: {
    db: Pick<Executor, "execute">;
    codec: Pick<BlockCodec, "decompress" | "digest">;
    objects: Pick<ObjectReader, "withData">;
  },
  place: BlockPlace,
): Promise<StoredEnvelope[]> => {
  const { hostId, queueId, receivedAt } = place;
  const row = await readRow(
    db,
    blockColumns,
    sql`
    select raw_bytes, encoding, data, digest from ingest_block where host_id = ${hostId} and received_at = ${place.receivedText}::timestamptz
      and queue_id = ${bytea(queueId)} and first_sequence = ${place.firstSequence}::bigint limit 1`,
  );
  if (row === undefined) return [];
  const [block = row] = await objects.withData([row]);
  if (block instanceof BlockCorrupt) throw block;
  return readCheckedBlock({ hostId, queueId, receivedAt, ...block }, codec);
};

/** Returns when the first of the blocks with `from <= xid < to` was received, of all hosts, by the index on `xid`; null without one. */
export const findFirstReceipt = async (
  db: Pick<Executor, "execute">,
  { from, to }: { from: bigint; to: bigint },
): Promise<Date | null> => {
  const { at } = await readOne(
    db,
    { at: orNull(asDate) },
    sql`
    select min(received_at) as at from ingest_block
    where xid >= ${from}::bigint and xid < ${to}::bigint`,
  );
  return at;
};
