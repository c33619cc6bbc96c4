import { sql } from "drizzle-orm";
import type { Database, Executor } from "../database/database.ts";

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

type ExportRow = Record<"name" | "position" | "dead_letters" | "position_age", string> & {
  stream: string | null;
  stream_pending: string | null;
  last_error: string | null;
  is_running: boolean;
};

/** Returns how far each export is behind, by name; none where nothing was ever exported. */
export const findExportLags = async (db: Database): Promise<ExportLag[]> => {
  const rows = await db.execute<ExportRow>(sql`
    select name, position::text as position, last_error,
      stream, stream_pending::text as stream_pending, extract(epoch from clock_timestamp() - position_at) as position_age,
      owner is not null and lease_until > clock_timestamp() as is_running,
      (select count(*) from export_dead_letter d where d.name = p.name) as dead_letters
    from export_position p order by name`);
  const lags: ExportLag[] = [];
  for (const row of rows) {
    const { name, is_running: isRunning, dead_letters, last_error: lastError } = row;
    lags.push({
      name,
      isRunning,
      deadLetters: Number(dead_letters),
      lastError,
      ...(await pendingOf(db, row)),
    });
  }
  return lags;
};

/** Returns how far behind a position is. In a stream, as cores have stored it, because PostgreSQL does not have the messages. */
const pendingOf = async (db: Database, row: ExportRow): Promise<PendingEnvelopes> => {
  if (row.stream === null) return countPending(db, row);
  const envelopes = Number(row.stream_pending ?? 0);
  return {
    envelopes,
    unaccounted: 0,
    ageSeconds: envelopes > 0 ? Math.max(0, Number(row.position_age)) : 0,
  };
};

type PendingEnvelopes = Pick<ExportLag, "envelopes" | "unaccounted" | "ageSeconds">;

const pendingFrom = (position: string) =>
  sql.raw(`
    select received_at, envelopes from ingest_block where xid >= ${BigInt(position)}
    union all select received_at, 1 from ingest_envelope where xid >= ${BigInt(position)}`);

/** Returns how far behind a position in PostgreSQL is. */
export const countPendingOf = (
  db: Database,
  { name, position }: { name: string; position: bigint | string },
): Promise<PendingEnvelopes> => countPending(db, { name, position: String(position) });

const countPending = (
  db: Database,
  { name, position }: Pick<ExportRow, "name" | "position">,
): Promise<PendingEnvelopes> =>
  db.transaction(async (tx) => {
    await tx.execute(sql`set local enable_seqscan = off`);
    // One statement, so one snapshot: only one of two would count a commit in between.
    const [counted] = await tx.execute<{
      rows: string;
      count: string;
      age: string | null;
      missing: string | null;
    }>(sql`
      select rows, count, age, (select ${storedTotal} - stored_before - passed - lost - count from export_position
        where name = ${name} and position = ${position}::bigint) as missing
      from (select count(*) as rows, coalesce(sum(envelopes), 0)::bigint as count,
          extract(epoch from clock_timestamp() - min(received_at)) as age
        from (${pendingFrom(position)} limit ${countedMax}) as pending) as counted`);
    const envelopes = Number(counted?.count ?? 0);
    const ageSeconds = Math.max(0, Number(counted?.age ?? 0));
    if (Number(counted?.rows ?? 0) < countedMax) {
      const unaccounted = Math.max(0, Number(counted?.missing ?? 0));
      return { envelopes: envelopes + unaccounted, unaccounted, ageSeconds };
    }
    const [explained] = await tx.execute<{ "QUERY PLAN": [{ Plan: { "Plan Rows": number } }] }>(
      sql`explain (format json) ${pendingFrom(position)}`,
    );
    const estimate =
      (explained?.["QUERY PLAN"][0].Plan["Plan Rows"] ?? 0) * (envelopes / countedMax);
    return { envelopes: Math.max(envelopes, Math.round(estimate)), unaccounted: 0, ageSeconds };
  });

/**
 * Sets how many envelopes were stored before those that an export has counted, unless it is known, so that nothing is unaccounted now. Sets
 * it again when more were read than counted, as while a core of an earlier version stores. Does nothing while 100,000 blocks are pending.
 */
export const alignStoredCount = (db: Database, name: string): Promise<void> =>
  db.transaction(async (tx) => {
    const [row] = await tx.execute<{ position: string }>(
      sql`select position::text as position from export_position where name = ${name} and stream is null`,
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
export interface StreamExport {
  name: string;
  position: bigint;
  /** The message at the position was stored then or earlier, in milliseconds; infinite before the first message. */
  storedBy: number;
}

/** Finds the exports that read a stream. */
export const findStreamExports = async (db: Executor, stream: string): Promise<StreamExport[]> => {
  const rows = await db.execute<{ name: string; position: string; passed: string; at: string }>(sql`
    select name, position::text as position, passed::text as passed, extract(epoch from position_at)::text as at
    from export_position where stream = ${stream}`);
  return rows.map(({ name, position, passed, at }) => ({
    name,
    position: BigInt(position),
    storedBy: passed === "0" ? Number.POSITIVE_INFINITY : Math.round(Number(at) * 1000),
  }));
};

/**
 * Stores how far behind a position in a stream is: how many messages follow it, and when the oldest of them was stored, in milliseconds;
 * null without one. Changes nothing if the position has moved meanwhile.
 */
export const noteStreamLag = async (
  db: Executor,
  lag: { name: string; stream: string; position: bigint; pending: number; oldestAt: number | null },
): Promise<void> => {
  const at =
    lag.oldestAt === null
      ? sql`position_at`
      : sql`${new Date(lag.oldestAt).toISOString()}::timestamptz`;
  await db.execute(sql`
    update export_position set stream_pending = ${lag.pending}::bigint, position_at = ${at}
    where name = ${lag.name} and stream = ${lag.stream} and position = ${lag.position.toString()}::bigint
      and (stream_pending is distinct from ${lag.pending}::bigint or position_at <> ${at})`);
};
