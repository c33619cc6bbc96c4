import type { SqlClient } from "#functions/store/database/pool/sql-client.ts";

/** Returns the bytes that PostgreSQL has written to its log since it was created. */
export const walBytes = async (sql: SqlClient): Promise<number> => {
  const [row] = await sql<
    { bytes: number }[]
  >`select pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8 as bytes`;
  return row?.bytes ?? 0;
};
