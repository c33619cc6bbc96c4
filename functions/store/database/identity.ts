import { type SQL, sql } from "drizzle-orm";
import { errorCode } from "#kit/describe-error.ts";
import type { Executor } from "./database.ts";
import { orNull, readOne, readScalar } from "./statements.ts";

/** The identity of a database, by which a copy elsewhere, or a server that was recovered to an earlier time, differs. */
export interface DatabaseIdentity {
  /** Identifies the cluster that initdb created, and its physical copies. Null if the role may not read it. */
  systemIdentifier: string | null;
  databaseOid: string;
  /** Begins with 1; each promotion and each recovery from an archive adds 1. Null if the role may not read it. */
  timeline: number | null;
}

/** The server of a database. */
export interface ServerIdentity extends DatabaseIdentity {
  /** The server's own start time: a server on restored files has the same identity, but was started again. Only compared. */
  startedAt: string;
}

const oid = sql`(select oid::text from pg_database where datname = current_database())`;
/** The timeline of the WAL under way: `pg_control_checkpoint` has the former one until the first checkpoint after a promotion. */
const timelineExpression = "('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int";
export const currentTimeline = sql.raw(timelineExpression);
const startExpression = "extract(epoch from pg_postmaster_start_time())::text";
export const serverStart = sql.raw(startExpression);

/** Returns what is another once the database may be in an earlier state: restored beside the former one, or on a server that was started again. */
export const readServerState = (db: Executor): Promise<string> =>
  readScalar(db, String, sql`select ${oid} || ' ' || ${serverStart} as state`);

const insufficientPrivilege = "42501";

/** Reads the identity of the database of this connection, and of its server. */
export const readDatabaseIdentity = async (db: Executor): Promise<ServerIdentity> => {
  const readIdentity = (systemIdentifier: SQL, readTimeline: SQL, from: SQL) =>
    readOne(
      db,
      {
        systemIdentifier: orNull(String),
        databaseOid: String,
        timeline: orNull(Number),
        startedAt: String,
      },
      sql`select ${systemIdentifier} as system_identifier, ${oid} as database_oid, ${readTimeline} as timeline, ${serverStart} as started_at ${from}`,
    );
  try {
    return await readIdentity(
      sql`system_identifier`,
      currentTimeline,
      sql`from pg_control_system()`,
    );
  } catch (error) {
    if (!isPrivilege(error)) throw error;
    return readIdentity(sql`null`, sql`null::int`, sql``);
  }
};

/** Returns the query, and the test of its row, for whether a server is on the timeline of `identity` and was not started since. */
export const serverCheck = ({ timeline, startedAt }: ServerIdentity) => ({
  query: `select ${timeline === null ? "null::int" : timelineExpression} as timeline, ${startExpression} as started`,
  isSame: (row?: { timeline: number | null; started: string }) =>
    row?.timeline === timeline && row.started === startedAt,
});

const isPrivilege = (error: unknown): boolean =>
  error instanceof Error &&
  (errorCode(error) === insufficientPrivilege || isPrivilege(error.cause));
