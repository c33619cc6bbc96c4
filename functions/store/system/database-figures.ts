import { sql } from "drizzle-orm";
import type { Database } from "../database/database.ts";
import { readServerSettings } from "../database/server-settings.ts";
import { orNull, readOne, readRows } from "../database/statements.ts";
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
  const figures = await readOne(
    db,
    { bytes: Number, telemetryBytes: Number, slowStatements: Number, slowestSeconds: Number },
    sql`
    select pg_database_size(current_database()) as bytes,
      (select coalesce(sum(pg_total_relation_size(inhrelid)), 0) from pg_inherits
        where inhparent in ('ingest_block'::regclass, 'ingest_envelope'::regclass)) as telemetry_bytes,
      count(*) filter (where seconds > ${slowSeconds}::int) as slow_statements, greatest(0, max(seconds)) as slowest_seconds
    from (select extract(epoch from clock_timestamp() - query_start) as seconds from pg_stat_activity
      where state = 'active' and backend_type = 'client backend' and datname = current_database()
        and pid <> pg_backend_pid()) active`,
  );
  const standbys = await readRows(
    db,
    { name: String, lagSeconds: orNull(Number) },
    sql`
    select application_name as name, extract(epoch from replay_lag) as lag_seconds from pg_stat_replication order by 1`,
  );
  const [oldest] = present;
  return {
    ...figures,
    version,
    oldestDay: oldest === undefined ? null : new Date(oldest),
    standbys,
  };
};
