import { sql } from "drizzle-orm";
import type { Database } from "../database/database.ts";
import { readServerSettings } from "../database/server-settings.ts";
import { findPartitionDays } from "../ingest/partitions.ts";

/** The sizes and the state of the database. */
export interface DatabaseFigures {
  version: number;
  bytes: number;
  /** The stored telemetry, including indexes. */
  telemetryBytes: number;
  /** The oldest day with a partition of telemetry. */
  oldestDay: Date | null;
  slowStatements: number;
  slowestSeconds: number;
  /** `lagSeconds`: null while a standby has nothing to replay, and if core's role may not read it. */
  standbys: { name: string; lagSeconds: number | null }[];
}

/** A statement that runs for longer is slow: requests have 30 s at most. */
const slowSeconds = 10;

/** Reads the figures of the database. */
export const readDatabaseFigures = async (db: Database): Promise<DatabaseFigures> => {
  const { version } = await readServerSettings(db);
  const { present } = await findPartitionDays(db);
  const [row] = await db.execute<
    Record<"bytes" | "telemetry_bytes" | "slow" | "slowest", string>
  >(sql`
    select pg_database_size(current_database()) as bytes,
      (select coalesce(sum(pg_total_relation_size(inhrelid)), 0) from pg_inherits
        where inhparent in ('ingest_block'::regclass, 'ingest_envelope'::regclass)) as telemetry_bytes,
      count(*) filter (where seconds > ${slowSeconds}::int) as slow, coalesce(max(seconds), 0) as slowest
    from (select extract(epoch from clock_timestamp() - query_start) as seconds from pg_stat_activity
      where state = 'active' and backend_type = 'client backend' and datname = current_database()
        and pid <> pg_backend_pid()) active`);
  if (row === undefined) throw new Error("the server returned no row");
  const standbys = await db.execute<{ name: string; lag: string | null }>(sql`
    select application_name as name, extract(epoch from replay_lag) as lag from pg_stat_replication order by 1`);
  const [oldest] = present;
  return {
    version,
    bytes: Number(row.bytes),
    telemetryBytes: Number(row.telemetry_bytes),
    oldestDay: oldest === undefined ? null : new Date(oldest),
    slowStatements: Number(row.slow),
    slowestSeconds: Math.max(0, Number(row.slowest)),
    standbys: standbys.map(({ name, lag }) => ({
      name,
      lagSeconds: lag === null ? null : Number(lag),
    })),
  };
};
