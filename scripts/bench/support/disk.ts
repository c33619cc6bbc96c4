import type { SqlClient } from "#functions/store/database/pool/sql-client.ts";

/** Returns the bytes that PostgreSQL has written to its log since it was created. */
export const walBytes = async (sql: SqlClient): Promise<number> => {
  const [row] = await sql<
    { bytes: number }[]
  >`select pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8 as bytes`;
  return row?.bytes ?? 0;
};

/** Returns the bytes of all tables and indexes but those of envelopes, and of envelopes alone. */
export const tableBytes = async (sql: SqlClient): Promise<{ fleet: number; envelopes: number }> => {
  const [row] = await sql<{ fleet: number; envelopes: number }[]>`
    select coalesce(sum(pg_table_size(c.oid) + pg_indexes_size(c.oid)) filter (where not c.relispartition), 0)::float8 as fleet,
      coalesce(sum(pg_table_size(c.oid) + pg_indexes_size(c.oid)) filter (where c.relispartition), 0)::float8 as envelopes
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'public' and c.relkind = 'r'`;
  return row ?? { fleet: 0, envelopes: 0 };
};
