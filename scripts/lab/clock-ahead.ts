/** Moves clocks of a lab ahead, for what a deployment does at times that nobody waits for. */
import type { SqlClient } from "../../functions/store/database/pool/sql-client.ts";

/** Returns options of Node with which a program's wall clock is ahead of the machine's. */
export const clockAheadFlags = (aheadMs: number): string[] => {
  const move = `const now = Date.now; Date.now = () => now() + ${aheadMs};`;
  return ["--import", `data:text/javascript,${encodeURIComponent(move)}`];
};

/** Returns the URL of a database on which its clock is ahead, as far as statements that core sends ask for it. */
export const moveDatabaseClock = async (
  sql: SqlClient,
  { databaseUrl, aheadMs }: { databaseUrl: string; aheadMs: number },
): Promise<string> => {
  await sql.unsafe(`create schema if not exists ahead;
    create or replace function ahead.clock_timestamp() returns timestamptz language sql volatile
      as $$ select pg_catalog.clock_timestamp() + interval '${aheadMs} milliseconds' $$`);
  const url = new URL(databaseUrl);
  // A schema before that of PostgreSQL's own functions; the first one gets new tables.
  url.searchParams.set("options", "-csearch_path=public,ahead,pg_catalog");
  return url.href;
};
