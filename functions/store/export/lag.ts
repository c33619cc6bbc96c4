import { type SQL, sql } from "drizzle-orm";
import type { Database, Executor } from "../database/database.ts";
import { asIs, orNull, readOne, readRow, readRows, readScalar } from "../database/statements.ts";

/** How far an export is behind. */
export interface ExportLag {
  name: string;
  /** Committed envelopes that are not exported, including `unaccounted` ones: counted up to 100,000 blocks, then an estimate. */
  envelopes: number;
  /**
   * Envelopes that were stored and passed by the position, but that no reader has returned: the number of all stored envelopes, which
   * ingest counts, less those that the export has read, and those that it has yet to read. Not 0: the export has skipped some.
   */
  unaccounted: number;
  /** Seconds since the oldest of them was received; 0 without one. */
  ageSeconds: number;
  /** A process has the lease. */
  isRunning: boolean;
  deadLetters: number;
  /** Why requests currently fail; null while they succeed. */
  lastError: string | null;
}

const countedMax = 100_000;
/** The number of envelopes that were ever stored. */
const storedTotal = sql`(select coalesce(sum(envelopes), 0)::bigint from ingest_stored)`;

const storedExport = {
  name: String,
  position: BigInt,
  lastError: orNull(String),
  isRunning: Boolean,
  deadLetters: Number,
};

/** Returns how far each export is behind, by name; none where nothing was ever exported. */
export const findExportLags = async (db: Database): Promise<ExportLag[]> => {
  const rows = await readRows(
    db,
    storedExport,
    sql`
    select name, position, last_error,
      owner is not null and lease_until > clock_timestamp() as is_running,
      (select count(*) from export_dead_letter d where d.name = p.name) as dead_letters
    from export_position p where stream is null order by name`,
  );
  const lags: ExportLag[] = [];
  for (const row of rows) {
    const { name, isRunning, deadLetters, lastError } = row;
    lags.push({ name, isRunning, deadLetters, lastError, ...(await countPendingOf(db, row)) });
  }
  return lags;
};

type PendingEnvelopes = Pick<ExportLag, "envelopes" | "unaccounted" | "ageSeconds">;

const pendingFrom = (position: bigint) =>
  sql.raw(`
    select received_at, envelopes from ingest_block where xid >= ${position}
    union all select received_at, 1 from ingest_envelope where xid >= ${position}`);

/** Returns how far behind a position is. */
export const countPendingOf = (
  db: Database,
  { name, position }: { name: string; position: bigint },
): Promise<PendingEnvelopes> =>
  db.transaction(async (tx) => {
    await tx.execute(sql`set local enable_seqscan = off`);
    // One statement, so one snapshot: only one of two would count a commit in between.
    const counted = await readOne(
      tx,
      { rows: Number, envelopes: Number, ageSeconds: Number, missing: Number },
      sql`
      select rows, count as envelopes, greatest(0, age) as age_seconds, greatest(0, (
        select ${storedTotal} - stored_before - passed - lost - count from export_position
        where name = ${name} and position = ${position}::bigint)) as missing
      from (select count(*) as rows, coalesce(sum(envelopes), 0)::bigint as count,
          extract(epoch from clock_timestamp() - min(received_at)) as age
        from (${pendingFrom(position)} limit ${countedMax}) as pending) as counted`,
    );
    const { rows, envelopes, ageSeconds, missing: unaccounted } = counted;
    if (rows < countedMax) return { envelopes: envelopes + unaccounted, unaccounted, ageSeconds };
    const estimate = (await estimateRows(tx, pendingFrom(position))) * (envelopes / countedMax);
    return { envelopes: Math.max(envelopes, Math.round(estimate)), unaccounted: 0, ageSeconds };
  });

/** Returns the planner's estimate of the rows of a query. */
export const estimateRows = async (db: Executor, query: SQL): Promise<number> => {
  const [explained] = await readScalar(
    db,
    asIs<[{ Plan: { "Plan Rows": number } }]>,
    sql`explain (format json) ${query}`,
  );
  return explained.Plan["Plan Rows"];
};

/**
 * Sets how many envelopes were stored before those that an export has counted, unless it is known, so that nothing is unaccounted now. Sets
 * it again when more were read than counted, as while a core of an earlier version stores. Does nothing while 100,000 blocks are pending.
 */
export const alignStoredCount = (db: Database, name: string): Promise<void> =>
  db.transaction(async (tx) => {
    const row = await readRow(
      tx,
      { position: BigInt },
      sql`select position from export_position where name = ${name} and stream is null`,
    );
    if (row === undefined) return;
    await tx.execute(sql`set local enable_seqscan = off`);
    await tx.execute(sql`
      update export_position set stored_before = ${storedTotal} - passed - lost - pending.count
      from (select count(*) as rows, coalesce(sum(envelopes), 0)::bigint as count
        from (${pendingFrom(row.position)} limit ${countedMax}) as pending) as pending
      where name = ${name} and position = ${row.position}::bigint and pending.rows < ${countedMax}
        and (stored_before is null or stored_before + passed + lost + pending.count > ${storedTotal})`);
  });
