/**
 * Finds and reads the blocks of one host by the time of receipt. Statements are short, and each reads one block: a reader occupies a
 * connection for milliseconds at a time, and uses no more memory than a block.
 */
import { type SQL, sql } from "drizzle-orm";
import type { Executor } from "../database/database.ts";
import {
  type BlockCodec,
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

const microseconds = sql`(extract(epoch from received_at) * 1e6)::bigint::text`;

type PlaceRow = Record<"at" | "at_text" | "first" | "last", string> & {
  queue_id: Uint8Array;
  envelopes: number;
  kinds: string[];
};

const key = sql`(received_at, queue_id, first_sequence)`;
const keyOf = ({ receivedText, queueId, firstSequence }: BlockPlace): SQL =>
  sql`(${receivedText}::timestamptz, ${bytea(queueId)}, ${String(firstSequence)}::bigint)`;
const bytea = (bytes: Uint8Array): SQL => sql`decode(${bytes.toHex()}, 'hex')`;
const every = (conditions: readonly (SQL | undefined)[]): SQL =>
  sql.join(
    conditions.filter((condition) => condition !== undefined),
    sql` and `,
  );

/** Returns the condition of a range: its host and its times. */
export const isInRange = ({ hostId, from, to }: Pick<HostRange, "hostId" | "from" | "to">): SQL =>
  every([
    sql`host_id = ${hostId}`,
    from ? sql`received_at >= ${from.toISOString()}::timestamptz` : undefined,
    to ? sql`received_at < ${to.toISOString()}::timestamptz` : undefined,
  ]);

/** Finds the positions of blocks, by the index on host and time of receipt. */
export const findBlockPlaces = async (
  db: Pick<Executor, "execute">,
  range: HostRange,
  { order, limit, beyond, upTo, xids }: BlockSearch,
): Promise<BlockPlace[]> => {
  const isOldest = order === "oldest";
  const direction = sql.raw(isOldest ? "asc" : "desc");
  const conditions = [
    isInRange(range),
    range.kind === null ? undefined : sql`${range.kind} = any(kinds)`,
    // Also the first column alone, which bounds the scan of the index.
    beyond &&
      sql`received_at ${sql.raw(isOldest ? ">=" : "<=")} ${beyond.receivedText}::timestamptz`,
    beyond && sql`${key} ${sql.raw(isOldest ? ">" : "<")} ${keyOf(beyond)}`,
    upTo && sql`received_at <= ${upTo.receivedText}::timestamptz and ${key} <= ${keyOf(upTo)}`,
    xids && sql`xid < ${String(xids.to)}::bigint`,
    xids && xids.from !== null ? sql`xid >= ${String(xids.from)}::bigint` : undefined,
  ];
  // No result column has the name of a sort column, which "order by" would use instead.
  const rows = await db.execute<PlaceRow>(sql`
    select ${microseconds} as at, received_at::text as at_text, queue_id, first_sequence::text as first,
      last_sequence::text as last, envelopes, kinds
    from ingest_block where ${every(conditions)}
    order by received_at ${direction}, queue_id ${direction}, first_sequence ${direction} limit ${limit}`);
  return rows.map((row) => ({
    hostId: range.hostId,
    receivedAt: BigInt(row.at),
    receivedText: row.at_text,
    queueId: row.queue_id,
    firstSequence: BigInt(row.first),
    lastSequence: BigInt(row.last),
    envelopes: row.envelopes,
    kinds: row.kinds,
  }));
};

type DataRow = { raw_bytes: number; encoding: number; data: Uint8Array; digest: Uint8Array };

/** Reads a block; none if retention has dropped it. Throws `BlockCorrupt`. */
export const readBlockAt = async (
  db: Pick<Executor, "execute">,
  place: BlockPlace,
  codec: Pick<BlockCodec, "decompress" | "digest">,
): Promise<StoredEnvelope[]> => {
  const { hostId, queueId, receivedAt } = place;
  const [row] = await db.execute<DataRow>(sql`
    select raw_bytes, encoding, data, digest from ingest_block where host_id = ${hostId} and received_at = ${place.receivedText}::timestamptz
      and queue_id = ${bytea(queueId)} and first_sequence = ${String(place.firstSequence)}::bigint limit 1`);
  if (row === undefined) return [];
  const { raw_bytes: rawBytes, encoding, data, digest } = row;
  return readCheckedBlock({ hostId, queueId, receivedAt, rawBytes, encoding, data, digest }, codec);
};

/** Returns when the first of the blocks with `from <= xid < to` was received, of all hosts, by the index on `xid`; null without one. */
export const findFirstReceipt = async (
  db: Pick<Executor, "execute">,
  { from, to }: { from: bigint; to: bigint },
): Promise<Date | null> => {
  const [row] = await db.execute<{ ms: string | null }>(sql`
    select floor(extract(epoch from min(received_at)) * 1000)::bigint::text as ms from ingest_block
    where xid >= ${String(from)}::bigint and xid < ${String(to)}::bigint`);
  return row?.ms == null ? null : new Date(Number(row.ms));
};
