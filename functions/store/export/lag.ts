import { type SQL, sql } from "drizzle-orm";
import type { Database, Executor } from "../database/database.ts";
import {
  asIs,
  orNull,
  type RowOf,
  readOne,
  readRow,
  readRows,
  readScalar,
  timestamptz,
} from "../database/statements.ts";

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
  stream: orNull(String),
  /** How far a position in a stream is behind, as cores have stored it. */
  streamPending: orNull(Number),
  positionAgeSeconds: Number,
  isRunning: Boolean,
  deadLetters: Number,
};

/** Returns how far each export is behind, by name; none where nothing was ever exported. */
export const findExportLags = async (db: Database): Promise<ExportLag[]> => {
  const rows = await readRows(
    db,
    storedExport,
    sql`
    select name, position, last_error, stream, stream_pending,
      extract(epoch from clock_timestamp() - position_at) as position_age_seconds,
      owner is not null and lease_until > clock_timestamp() as is_running,
      (select count(*) from export_dead_letter d where d.name = p.name) as dead_letters
    from export_position p order by name`,
  );
  const lags: ExportLag[] = [];
  for (const row of rows) {
    const { name, isRunning, deadLetters, lastError } = row;
    lags.push({ name, isRunning, deadLetters, lastError, ...(await pendingOf(db, row)) });
  }
  return lags;
};

/** Returns how far behind a position is. In a stream, as cores have stored it, because PostgreSQL does not have the messages. */
const pendingOf = async (
  db: Database,
  row: RowOf<typeof storedExport>,
): Promise<PendingEnvelopes> => {
  if (row.stream === null) return countPendingOf(db, row);
  const envelopes = row.streamPending ?? 0;
  return {
    envelopes,
    unaccounted: 0,
    ageSeconds: envelopes > 0 ? Math.max(0, row.positionAgeSeconds) : 0,
  };
};

type PendingEnvelopes = Pick<ExportLag, "envelopes" | "unaccounted" | "ageSeconds">;

const pendingFrom = (position: bigint) =>
  sql.raw(`
    select received_at, envelopes from ingest_block where xid >= ${position}
    union all select received_at, 1 from ingest_envelope where xid >= ${position}`);

/** Returns how far behind a position in PostgreSQL is. */
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

/** An export that reads a stream. */
export type StreamExport = RowOf<typeof streamExport>;
const streamExport = {
  name: String,
  position: BigInt,
  /** The message at the position was stored then or earlier, in milliseconds; infinite before the first message. */
  storedBy: (at: string | null) => (at === null ? Number.POSITIVE_INFINITY : Date.parse(at)),
};

/** Finds the exports that read a stream. */
export const findStreamExports = (db: Executor, stream: string): Promise<StreamExport[]> =>
  readRows(
    db,
    streamExport,
    sql`
    select name, position, case when passed > 0 then position_at end as stored_by from export_position where stream = ${stream}`,
  );

/**
 * Stores how far behind a position in a stream is: how many messages follow it, and when the oldest of them was stored, in milliseconds;
 * null without one. Changes nothing if the position has moved meanwhile.
 */
export const noteStreamLag = async (
  db: Executor,
  lag: { name: string; stream: string; position: bigint; pending: number; oldestAt: number | null },
): Promise<void> => {
  const at = lag.oldestAt === null ? sql`position_at` : timestamptz(lag.oldestAt);
  await db.execute(sql`
    update export_position set stream_pending = ${lag.pending}::bigint, position_at = ${at}
    where name = ${lag.name} and stream = ${lag.stream} and position = ${lag.position}::bigint
      and (stream_pending is distinct from ${lag.pending}::bigint or position_at <> ${at})`);
};
