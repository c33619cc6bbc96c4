import { type SQL, sql } from "drizzle-orm";
import type { Executor } from "../database/database.ts";
import { type RowOf, readRows, timestamptz } from "../database/statements.ts";

/** An account that may change the state of hours that have a statement. */
export type SettlingAccount = RowOf<typeof settlingAccount>;
const settlingAccount = {
  host: String,
  fromMs: Date.parse,
  toMs: Date.parse,
  isStopped: Boolean,
  receivedMs: Date.parse,
  xid: BigInt,
};

/** An account may become visible this long after its time of receipt. */
const commitSecondsMax = 60;

const columns = sql`host_id as host, from_at as from_ms, to_at as to_ms, is_stopped, received_at as received_ms, xid`;

/** Selects accounts of hours before `hour`, at most `limit`. */
interface AccountQuery {
  hour: Date;
  limit: number;
}

const selectAccounts = (
  db: Executor,
  { hour, limit }: AccountQuery,
  { where, order }: { where: SQL; order: SQL },
): Promise<SettlingAccount[]> =>
  readRows(
    db,
    settlingAccount,
    sql`
    select ${columns} from ingest_account where ${where} and from_at < ${timestamptz(hour)} order by ${order} limit ${limit}`,
  );

/**
 * Finds accounts that were received before `until`, in the order of their receipt: those since `since`, and earlier ones from the transaction
 * id `unseenFrom` on, which may have committed later.
 */
export const findLateAccounts = (
  db: Executor,
  {
    since,
    unseenFrom,
    until,
    ...query
  }: { since: Date; unseenFrom: bigint; until: Date } & AccountQuery,
): Promise<SettlingAccount[]> =>
  selectAccounts(db, query, {
    where: sql`received_at >= ${timestamptz(since, -commitSecondsMax)} and received_at < ${timestamptz(until)}
      and (received_at >= ${timestamptz(since)} or xid >= ${unseenFrom}::bigint)`,
    order: sql`received_at`,
  });

/** Finds accounts that the slowest export delivered between the positions `from` and `below`, in its order. */
export const findDeliveredAccounts = (
  db: Executor,
  { from, below, ...query }: { from: bigint; below: bigint } & AccountQuery,
): Promise<SettlingAccount[]> =>
  selectAccounts(db, query, {
    where: sql`xid >= ${from}::bigint and xid < ${below}::bigint and refused is null and accepted > 0`,
    order: sql`ingest_account.xid`,
  });

/** A queue that ends, or opens again, changes at most so many past hours. */
const hoursMax = 31 * 24;

/**
 * Finds accounts of hours before `hour` for which, since `since`, a backend rejected records or accepted rejected ones, or core lost
 * records; and times without an account of queues that ended or opened again. `receivedMs` is when that happened, and orders them.
 */
export const findChangedAccounts = (
  db: Executor,
  { since, hour, limit }: { since: Date } & AccountQuery,
): Promise<SettlingAccount[]> =>
  readRows(
    db,
    settlingAccount,
    sql`
    select ${columns} from (
      select a.host_id, a.from_at, a.to_at, a.is_stopped, a.xid, r.last_at as received_at from export_rejection r
      cross join lateral (
        select * from ingest_account i
        where i.host_id = r.host_id and i.queue_id = r.queue_id and i.refused is null and i.last_sequence > r.after_sequence
        order by i.number limit 1) a
      where r.last_at >= ${timestamptz(since, -commitSecondsMax)} and a.last_sequence - a.accepted <= r.after_sequence and a.from_at < ${timestamptz(hour)}
      union all
      select a.host_id, a.from_at, a.to_at, a.is_stopped, a.xid, r.recorded_at from ingest_lost_range r
      join ingest_account a on a.host_id = r.host_id and a.refused is null and a.last_sequence >= r.from_sequence
        and a.last_sequence - a.accepted < r.through_sequence
      where r.recorded_at >= ${timestamptz(since, -commitSecondsMax)} and a.from_at < ${timestamptz(hour)}
      union all
      select q.host_id, greatest(coalesce(a.to_at, q.first_seen_at), ${timestamptz(hour)} - interval '1 hour' * ${hoursMax}::int),
        least(q.ended_at, ${timestamptz(hour)}), true, 0, q.changed_at from ingest_queue q
      left join lateral (
        select to_at from ingest_account i where i.host_id = q.host_id and i.queue_id = q.queue_id and i.refused is null
        order by i.number desc limit 1) a on true
      where q.changed_at >= ${timestamptz(since, -commitSecondsMax)} and coalesce(a.to_at, q.first_seen_at) < ${timestamptz(hour)}) as changed
    order by received_at limit ${limit}`,
  );
