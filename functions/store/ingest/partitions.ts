/**
 * Daily partitions of `ingest_envelope`, by the UTC day of `received_at`. Invariants: every row has a partition, if only the default one,
 * and a partition that is created late receives the rows of its day. Each step waits at most two seconds for its locks, so that it never
 * blocks ingest for longer; a step that timed out runs again at the next tick.
 */

import { sql } from "drizzle-orm";
import { dayMs } from "../../../kit/clock.ts";
import type { Database, Executor } from "../database/database.ts";
import { arrayLiteral } from "../database/query-parts.ts";

const prefix = "ingest_envelope_";
/** Returns the name of a day's partition. */
export const partitionNameOf = (day: number): string =>
  `${prefix}${new Date(day).toISOString().slice(0, 10).replaceAll("-", "")}`;

/** Returns the day in a partition's name, in milliseconds; undefined for the default partition and for other tables. */
const dayOf = (name: string): number | undefined => {
  const [, year, month, day] = /^ingest_envelope_(\d{4})(\d\d)(\d\d)$/.exec(name) ?? [];
  return year === undefined ? undefined : Date.UTC(Number(year), Number(month) - 1, Number(day));
};

/** Returns the days that have a partition, as milliseconds of their midnight, oldest first. */
export const findPartitionDays = async (db: Pick<Database, "execute">): Promise<number[]> => {
  const rows = await db.execute<{ name: string }>(sql`
    select relname as name from pg_inherits join pg_class on pg_class.oid = inhrelid
    where inhparent = 'ingest_envelope'::regclass order by relname`);
  return rows.flatMap(({ name }) => dayOf(name) ?? []);
};

/** Creates the partition of a day unless it exists, and moves the rows of the day from the default partition to it. */
export const createPartition = async (db: Database, day: number): Promise<void> => {
  const name = sql.identifier(partitionNameOf(day));
  const from = sql.raw(`'${new Date(day).toISOString()}'::timestamptz`);
  const to = sql.raw(`'${new Date(day + dayMs).toISOString()}'::timestamptz`);
  await db.transaction(async (tx) => {
    await lockPartitions(tx);
    if ((await findPartitionDays(tx)).includes(day)) return;
    // Created alone and then attached: creating it in place would lock the whole table against COPY.
    await tx.execute(sql`lock table ingest_envelope_default in access exclusive mode`);
    await tx.execute(sql`create table ${name} (like ingest_envelope including storage)`);
    await tx.execute(sql`
      with moved as (
        delete from ingest_envelope_default where received_at >= ${from} and received_at < ${to} returning *)
      insert into ${name} select * from moved`);
    await tx.execute(sql`alter table ingest_envelope attach partition ${name} for values from (${from}) to (${to})`);
  });
};

/** Returns how many rows the partition of a day has. A count that takes longer than a few seconds is an estimate of the planner. */
export const countPartition = async (db: Database, day: number): Promise<{ rows: number; isExact: boolean }> => {
  const name = sql.identifier(partitionNameOf(day));
  try {
    const [counted] = await db.transaction(async (tx) => {
      await tx.execute(sql`set local statement_timeout = '8s'`);
      return tx.execute<{ rows: string }>(sql`select count(*) as rows from ${name}`);
    });
    return { rows: Number(counted?.rows ?? 0), isExact: true };
  } catch {
    const [estimated] = await db.execute<{ rows: string }>(sql`
      select greatest(reltuples, 0)::bigint as rows from pg_class where oid = to_regclass(${partitionNameOf(day)})`);
    return { rows: Number(estimated?.rows ?? 0), isExact: false };
  }
};

/** Drops the partition of a day and runs `record` in the same transaction, unless another core has dropped it. */
export const dropPartition = async (
  db: Database,
  day: number,
  record: (tx: Executor) => Promise<void>,
): Promise<boolean> =>
  db.transaction(async (tx) => {
    await lockPartitions(tx);
    if (!(await findPartitionDays(tx)).includes(day)) return false;
    await tx.execute(sql`drop table ${sql.identifier(partitionNameOf(day))}`);
    await record(tx);
    return true;
  });

/**
 * Deletes from the default partition the rows received on its oldest day, if all of that day is before `keptFrom`, and runs `record` with
 * the day and their count in the same transaction.
 */
export const deleteOldestDefaultDay = async (
  db: Database,
  keptFrom: number,
  record: (tx: Executor, deleted: { day: number; rows: number }) => Promise<void>,
): Promise<number | undefined> =>
  db.transaction(async (tx) => {
    await lockPartitions(tx);
    const [oldest] = await tx.execute<{ ms: string | null }>(sql`
      select (extract(epoch from min(received_at)) * 1000)::bigint::text as ms from ingest_envelope_default`);
    if (oldest?.ms == null) return undefined;
    const day = Math.floor(Number(oldest.ms) / dayMs) * dayMs;
    if (day + dayMs > keptFrom) return undefined;
    const [deleted] = await tx.execute<{ rows: string }>(sql`
      with deleted as (
        delete from ingest_envelope_default where received_at < ${new Date(day + dayMs).toISOString()}::timestamptz
        returning 1)
      select count(*) as rows from deleted`);
    await record(tx, { day, rows: Number(deleted?.rows ?? 0) });
    return day;
  });

/** Admits one replica at a time. The timeout keeps writers from queueing behind a step that waits for a long read. */
const lockPartitions = async (tx: Pick<Database, "execute">): Promise<void> => {
  await tx.execute(sql`set local lock_timeout = '2s'`);
  await tx.execute(sql`select pg_advisory_xact_lock(hashtext('ingest_envelope partitions'))`);
};

/** Makes the index on `xid` of these days, and of the default partition, learn of new rows: until then each read of them scans them. */
export const summarizePartitions = async (db: Pick<Database, "execute">, days: readonly number[]): Promise<void> => {
  const names = ["ingest_envelope_default", ...days.map(partitionNameOf)];
  await db.execute(sql`
    select brin_summarize_new_values(indexrelid::regclass) from pg_index join pg_class on pg_class.oid = indexrelid
    join pg_am on pg_am.oid = relam where amname = 'brin' and indrelid in (
      select oid from pg_class where relname = any (${arrayLiteral(names)}::text[]))`);
};
