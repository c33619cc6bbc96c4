/** The reports of cores on themselves (docs/operate.md), and the figures of their database. */

import { lt, sql } from "drizzle-orm";
import { coreReport } from "#drizzle/schema/deployment.ts";
import { dayMs } from "#kit/clock.ts";
import type { Database, Executor } from "../database/database.ts";
import { readServerSettings } from "../database/server-settings.ts";
import {
  asDate,
  orNull,
  type RowOf,
  readOne,
  readRows,
  readScalar,
  timestamptz,
} from "../database/statements.ts";
import { findPartitionDays } from "../ingest/partitions.ts";

/** The last report of a core. */
export type CoreReport = typeof coreReport.$inferSelect;

/** A credential of a core, as its report has it. */
export type ReportedCredential = NonNullable<CoreReport["credentials"]>[number];

/** Replaces the report of a core, and deletes those of cores that have not reported for a day. */
export const upsertCoreReport = async (tx: Executor, report: CoreReport) => {
  await tx
    .insert(coreReport)
    .values(report)
    .onConflictDoUpdate({ target: coreReport.id, set: report });
  await tx
    .delete(coreReport)
    .where(lt(coreReport.reportedAt, new Date(report.reportedAt.getTime() - dayMs)));
};

/** Counts hosts by the machine of the core that received their last heartbeat, if it is not older than `since`. */
export const countHostsByCore = async (
  db: Executor,
  since: Date,
): Promise<ReadonlyMap<string, number>> => {
  const rows = await readRows(
    db,
    { core: String, hosts: Number },
    sql`
    select core, count(*) as hosts from fleet_status where last_heartbeat_at >= ${timestamptz(since)} group by core`,
  );
  return new Map(rows.map(({ core, hosts }) => [core, hosts]));
};

/** Finds the last report of each core, by machine and start. */
export const findCoreReports = (db: Executor): Promise<CoreReport[]> =>
  db
    .select()
    .from(coreReport)
    .orderBy(sql`${coreReport.machine} collate "C"`, coreReport.startedAt);

/** A sign-in that web has reported. */
export type ReportedSignIn = RowOf<typeof signIn>;
const signIn = { person: orNull(String), reasonCode: orNull(String), at: asDate };

/** Finds the last hundred sign-ins that web has reported since a time, newest first; a refused one has a reason. */
export const findSignIns = (db: Executor, since: Date): Promise<ReportedSignIn[]> =>
  readRows(
    db,
    signIn,
    sql`
    select coalesce(nullif(target_id, ''), details->>'subject') as person, reason_code, occurred_at as at from audit_event
    where action = 'operator.sign_in' and occurred_at > ${timestamptz(since)} order by id desc limit 100`,
  );

/** Finds when the password of core's role ends; null for never. */
export const findPasswordEnd = (db: Executor): Promise<Date | null> =>
  readScalar(
    db,
    orNull(asDate),
    sql`select nullif(rolvaliduntil, 'infinity') from pg_roles where rolname = current_user`,
  );

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
