import { sql } from "drizzle-orm";
import { errorCode } from "../../kit/describe-error.ts";
import type { Executor } from "./database.ts";

/** Where a database is: a copy elsewhere has another identity, and so has a server that was recovered to an earlier time. */
export interface DatabaseIdentity {
  /** Identifies the cluster that initdb made, and its physical copies. Null if the role may not read it. */
  systemIdentifier: string | null;
  databaseOid: string;
  /** Begins with 1; each promotion and each recovery from an archive adds 1. Null if the role may not read it. */
  timeline: number | null;
}

const oid = sql`(select oid::text from pg_database where datname = current_database())`;
/** The timeline of the WAL that is being written: `pg_control_checkpoint` has the former one until the first checkpoint after a promotion. */
const timelineExpression = "('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int";
export const currentTimeline = sql.raw(timelineExpression);
/** Returns the timeline as the column `timeline`. */
export const currentTimelineQuery = `select ${timelineExpression} as timeline`;
const insufficientPrivilege = "42501";

/** Reads the identity of the database of this connection. */
export const readDatabaseIdentity = async (db: Executor): Promise<DatabaseIdentity> => {
  const [row] = await db
    .execute<{ system: string | null; oid: string; timeline: number | null }>(
      sql`select system_identifier::text as system, ${oid} as oid, ${currentTimeline} as timeline from pg_control_system()`,
    )
    .catch((error: unknown) => {
      if (!isPrivilege(error)) throw error;
      return db.execute<{ system: string | null; oid: string; timeline: number | null }>(
        sql`select null as system, ${oid} as oid, null::int as timeline`,
      );
    });
  if (row === undefined) throw new Error("the server returned no row");
  return { systemIdentifier: row.system, databaseOid: row.oid, timeline: row.timeline };
};

const isPrivilege = (error: unknown): boolean =>
  error instanceof Error && (errorCode(error) === insufficientPrivilege || isPrivilege(error.cause));
