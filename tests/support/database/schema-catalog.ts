import type { SqlClient } from "#functions/store/database/pool/sql-client.ts";

/**
 * Returns what PostgreSQL knows of core's schemas, without the records of the migrator and the partitions of a day. Columns are in the
 * order of their names, because a migration adds them at the end; those of "fleet_host" are in theirs, because its view fills it by position.
 */
export const readCatalog = async (sql: SqlClient): Promise<Record<string, readonly unknown[]>> => ({
  columns: await sql`
    select table_schema, table_name, column_name, data_type, is_nullable, column_default, collation_name, datetime_precision
    from information_schema.columns where table_schema in ('public', 'chat') and table_name !~ '^ingest_(envelope|block)_2' order by 1, 2, 3`,
  positions: await sql`
    select table_name, column_name from information_schema.columns where table_name in ('fleet_host', 'fleet_facts')
    order by table_name, ordinal_position`,
  relations: await sql`
    select relname, relkind, reloptions from pg_class
    where relnamespace = any ('{public,chat}'::regnamespace[]) and relname !~ '^ingest_(envelope|block)_2' order by 1, 2`,
  indexes: await sql`
    select indexname, indexdef from pg_indexes where schemaname = 'public' and tablename !~ '^ingest_(envelope|block)_2' order by 1`,
  constraints: await sql`
    select conrelid::regclass::text, conname, pg_get_constraintdef(oid) from pg_constraint
    where connamespace = 'public'::regnamespace and conrelid::regclass::text !~ '^ingest_(envelope|block)_2' order by 1, 2`,
  triggers:
    await sql`select tgname, pg_get_triggerdef(oid) from pg_trigger where not tgisinternal order by 1, 2`,
  functions: await sql`
    select oid::regprocedure::text, prosrc, proconfig from pg_proc where pronamespace = 'public'::regnamespace order by 1`,
  views: await sql`
    select viewname, definition from pg_views where schemaname in ('public', 'chat') order by 1, 2`,
});
