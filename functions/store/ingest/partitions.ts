/**
 * Daily partitions of the telemetry, by the UTC day of `received_at`. Invariants:
 * - Every block has a partition, at least the default one, and a partition that is created late receives the blocks of its day.
 * - Each step waits at most two seconds for its locks, so that it never blocks ingest for longer. A step that timed out runs again at the
 *   next tick.
 * - The rows of earlier versions (store/rows/) have the same days, and are created and dropped with them.
 */

import { sql } from "drizzle-orm";
import { dayMs } from "#kit/clock.ts";
import type { Database, Executor } from "../database/database.ts";
import { orNull, readOne, readRow, readRows, timestamptz } from "../database/statements.ts";

const tables = ["ingest_block", "ingest_envelope"] as const;
type Table = (typeof tables)[number];

/** The number of envelopes in a row of each table. */
const envelopesIn = { ingest_block: sql.raw("envelopes"), ingest_envelope: sql.raw("1") };

const partitionNameOf = (table: Table, day: number) =>
  `${table}_${new Date(day).toISOString().slice(0, 10).replaceAll("-", "")}`;

/** Returns the day in a partition's name, in milliseconds; undefined for the default partition and for other tables. */
const dayOf = (name: string) => {
  const [, year, month, day] = /^ingest_[a-z]+_(\d{4})(\d\d)(\d\d)$/.exec(name) ?? [];
  return year === undefined ? undefined : Date.UTC(Number(year), Number(month) - 1, Number(day));
};

const findDaysOf = async (db: Pick<Database, "execute">, table: Table): Promise<number[]> => {
  const rows = await readRows(
    db,
    { name: String },
    sql`
    select relname as name from pg_inherits join pg_class on pg_class.oid = inhrelid
    where inhparent = ${table}::regclass order by relname`,
  );
  return rows.flatMap(({ name }) => dayOf(name) ?? []);
};

/**
 * Returns the days for which some table has a partition, and those for which all have one, as milliseconds of their midnight, oldest first.
 */
export const findPartitionDays = async (
  db: Pick<Database, "execute">,
): Promise<{ present: number[]; whole: number[] }> => {
  const daysOfTables = await Promise.all(tables.map((table) => findDaysOf(db, table)));
  const present = [...new Set(daysOfTables.flat())].sort((a, b) => a - b);
  const whole = present.filter((day) => daysOfTables.every((days) => days.includes(day)));
  return { present, whole };
};

/** Creates the partitions of a day unless they exist, and moves the day's rows from the default partitions to them. */
export const createPartition = async (db: Database, day: number): Promise<void> => {
  for (const table of tables) await createPartitionOf(db, table, day);
};

const createPartitionOf = async (db: Database, table: Table, day: number) => {
  const [parent, name, rest] = [table, partitionNameOf(table, day), `${table}_default`].map(
    (each) => sql.identifier(each),
  );
  const from = sql.raw(`'${new Date(day).toISOString()}'::timestamptz`);
  const to = sql.raw(`'${new Date(day + dayMs).toISOString()}'::timestamptz`);
  await db.transaction(async (tx) => {
    await lockPartitions(tx);
    if ((await findDaysOf(tx, table)).includes(day)) return;
    // Created alone and then attached: creating it in place would lock the whole table against COPY.
    await tx.execute(sql`lock table ${rest} in access exclusive mode`);
    await tx.execute(sql`create table ${name} (like ${parent} including storage)`);
    await tx.execute(sql`
      with moved as (delete from ${rest} where received_at >= ${from} and received_at < ${to} returning *)
      insert into ${name} select * from moved`);
    await tx.execute(
      sql`alter table ${parent} attach partition ${name} for values from (${from}) to (${to})`,
    );
  });
};

/** Returns the number of envelopes of a day; an estimate if counting would take more than a few seconds. */
export const countPartition = async (
  db: Database,
  day: number,
): Promise<{ rows: number; isExact: boolean }> => {
  const present = await tablesOfDay(db, day);
  const counts = await Promise.all(present.map((table) => countTable(db, table, day)));
  return {
    rows: counts.reduce((sum, { rows }) => sum + rows, 0),
    isExact: counts.every(({ isExact }) => isExact),
  };
};

const countTable = async (
  db: Database,
  table: Table,
  day: number,
): Promise<{ rows: number; isExact: boolean }> => {
  const name = partitionNameOf(table, day);
  try {
    const { rows } = await db.transaction(async (tx) => {
      await tx.execute(sql`set local statement_timeout = '8s'`);
      return readOne(
        tx,
        { rows: Number },
        sql`select coalesce(sum(${envelopesIn[table]}), 0) as rows from ${sql.identifier(name)}`,
      );
    });
    return { rows, isExact: true };
  } catch {
    // The size of a table says more about blocks than the planner's number of rows; a sample gives the envelopes of each.
    const estimated = await readRow(
      db,
      { rows: Number },
      sql`
      select (greatest(reltuples, 0) * coalesce((
        select avg(some) from (select ${envelopesIn[table]} as some from ${sql.identifier(name)} limit 1000) as sample), 0))::bigint as rows
      from pg_class where oid = to_regclass(${name})`,
    );
    return { rows: estimated?.rows ?? 0, isExact: false };
  }
};

const tablesOfDay = async (db: Pick<Database, "execute">, day: number): Promise<Table[]> => {
  const days = await Promise.all(tables.map((table) => findDaysOf(db, table)));
  return tables.filter((_, index) => days[index]?.includes(day));
};

/** Drops the partitions of a day and runs `record` in the same transaction, unless another core has dropped them. */
export const dropPartition = async (
  db: Database,
  day: number,
  record: (tx: Executor) => Promise<void>,
): Promise<boolean> =>
  db.transaction(async (tx) => {
    await lockPartitions(tx);
    const present = await tablesOfDay(tx, day);
    if (present.length === 0) return false;
    for (const table of present)
      await tx.execute(sql`drop table ${sql.identifier(partitionNameOf(table, day))}`);
    await record(tx);
    return true;
  });

/**
 * Deletes the oldest day from the default partitions if all of it is before `keptFrom`. Runs `record` with the day and the number of
 * envelopes in the same transaction.
 */
export const deleteOldestDefaultDay = async (
  db: Database,
  keptFrom: number,
  record: (tx: Executor, deleted: { day: number; rows: number }) => Promise<void>,
): Promise<number | undefined> =>
  db.transaction(async (tx) => {
    await lockPartitions(tx);
    const { oldest } = await readOne(
      tx,
      { oldest: orNull(Date.parse) },
      sql`
      select least(
        (select min(received_at) from ingest_block_default), (select min(received_at) from ingest_envelope_default)) as oldest`,
    );
    if (oldest === null) return undefined;
    const day = Math.floor(oldest / dayMs) * dayMs;
    if (day + dayMs > keptFrom) return undefined;
    let rows = 0;
    for (const table of tables) {
      const deleted = await readOne(
        tx,
        { rows: Number },
        sql`
        with deleted as (
          delete from ${sql.identifier(`${table}_default`)} where received_at < ${timestamptz(day + dayMs)}
          returning ${envelopesIn[table]} as envelopes)
        select coalesce(sum(envelopes), 0) as rows from deleted`,
      );
      rows += deleted.rows;
    }
    await record(tx, { day, rows });
    return day;
  });

/** Marks objects for deletion whose blocks have all been dropped: at most `limit`, and returns how many. */
export const markDroppedObjects = (db: Database, limit: number): Promise<number> =>
  db.transaction(async (tx) => {
    await lockPartitions(tx);
    const [first] = await findDaysOf(tx, "ingest_block");
    if (first === undefined) return 0;
    const marked = await tx.execute(sql`
      update ingest_object set state = 2, changed_at = clock_timestamp() where (id, nonce) in (
        select id, nonce from ingest_object where state = 1
        and received_at < least(${timestamptz(first)}, (select min(received_at) from ingest_block_default)) limit ${limit})
      returning id`);
    return marked.length;
  });

/** Returns the partitions of a day, or the default ones, each with the SQL for the number of envelopes in a row. */
export const findTables = async (
  db: Pick<Database, "execute">,
  day: number,
  partition: "day" | "default",
): Promise<{ table: string; envelopes: string }[]> => {
  const present = partition === "day" ? await tablesOfDay(db, day) : tables;
  return present.map((table) => ({
    table: partition === "day" ? partitionNameOf(table, day) : `${table}_default`,
    envelopes: table === "ingest_block" ? "envelopes" : "1",
  }));
};

/** Admits one core at a time. The timeout keeps writers from queueing behind a step that waits for a long read. */
const lockPartitions = async (tx: Pick<Database, "execute">) => {
  await tx.execute(sql`set local lock_timeout = '2s'`);
  await tx.execute(sql`select pg_advisory_xact_lock(hashtext('ingest_envelope partitions'))`);
};
