/**
 * What a backup has of the database: every table of core, as COPY writes it, in one snapshot and in an order in which rows follow those that
 * they refer to. Telemetry is left out unless it is asked for.
 */
import { getTableName, is } from "drizzle-orm";
import { PgTable } from "drizzle-orm/pg-core";
import type { Client } from "pg";
import { type CopyStreamQuery, from as copyFrom, to as copyTo } from "pg-copy-streams";
import * as schema from "../../../drizzle/schema/index.ts";
import { identifier, literal } from "../database/sql-literals.ts";

/** A table of a backup. */
export interface BackupTable {
  name: string;
  /** Without those that the database computes. */
  columns: string[];
  /** Of a partitioned table: the name and the bound of each, as SQL. */
  partitions: { name: string; bound: string }[];
}

/** The definitions that make tables; the others, triggers among them, come once the rows are there. */
export const tableDefinitions = ["ingest-block", "ingest-envelope"];
const telemetryTables = ["ingest_block", "ingest_envelope"];
const ownTables = Object.values(schema).flatMap((value) => (is(value, PgTable) ? [getTableName(value)] : []));

/** Begins the snapshot that the next functions read, and returns its time. */
export const beginSnapshot = async (client: Client): Promise<Date> => {
  await client.query("begin isolation level repeatable read, read only");
  const { rows } = await client.query<{ at: Date }>("select transaction_timestamp() as at");
  return rows[0]?.at ?? new Date(Number.NaN);
};

/** Lists the tables of a backup, those first to which the others refer. */
export const listTables = async (client: Client, of: { withTelemetry: boolean }): Promise<BackupTable[]> => {
  const names = [...new Set([...ownTables, ...telemetryTables])].filter(
    (name) => of.withTelemetry || !telemetryTables.includes(name),
  );
  const { rows } = await client.query<BackupTable>(
    `select c.relname::text as name,
       (select array_agg(attname::text order by attnum) from pg_attribute
         where attrelid = c.oid and attnum > 0 and not attisdropped and attgenerated = '') as columns,
       coalesce((select json_agg(json_build_object('name', p.relname, 'bound', pg_get_expr(p.relpartbound, p.oid)) order by p.relname)
         from pg_inherits join pg_class p on p.oid = inhrelid where inhparent = c.oid), '[]') as partitions
     from pg_class c where c.relnamespace = current_schema::regnamespace and relkind in ('r', 'p') and c.relname = any($1)
     order by c.relname`,
    [names],
  );
  const { rows: references } = await client.query<{ child: string; parent: string }>(
    `select child.relname::text as child, parent.relname::text as parent from pg_constraint
     join pg_class child on child.oid = conrelid join pg_class parent on parent.oid = confrelid
     where contype = 'f' and conrelid <> confrelid`,
  );
  return inOrder(rows, references);
};

/** Puts each table behind those that it refers to. Throws for a circle, which no order satisfies. */
const inOrder = (
  tables: readonly BackupTable[],
  references: readonly { child: string; parent: string }[],
): BackupTable[] => {
  const ordered: BackupTable[] = [];
  let left = [...tables];
  while (left.length > 0) {
    const waits = ({ name }: BackupTable) =>
      references.some(({ child, parent }) => child === name && left.some((other) => other.name === parent));
    const free = left.filter((table) => !waits(table));
    if (free.length === 0) throw new Error(`tables refer to each other: ${left.map(({ name }) => name).join(", ")}`);
    ordered.push(...free);
    left = left.filter(waits);
  }
  return ordered;
};

const columnList = ({ columns }: BackupTable): string => columns.map(identifier).join(", ");

/** Reads the rows of a table as COPY writes them, in pieces of any size. */
export const readRows = async function* (client: Client, table: BackupTable): AsyncGenerator<Buffer, number, void> {
  const copy = client.query(copyTo(`copy (select ${columnList(table)} from ${identifier(table.name)}) to stdout`));
  yield* copy as AsyncIterable<Buffer>;
  return copy.rowCount;
};

/** Returns the last values of the sequences. */
export const readSequences = async (client: Client): Promise<Record<string, string>> => {
  const { rows } = await client.query<{ name: string; value: string }>(
    `select sequencename::text as name, last_value::text as value from pg_sequences
     where schemaname = current_schema and last_value is not null order by 1`,
  );
  return Object.fromEntries(rows.map(({ name, value }) => [name, value]));
};

/** Returns the names and digests of the migrations that the database has. */
export const readSchemaRecords = async (client: Client): Promise<{ name: string; sha256: string }[]> => {
  const { rows } = await client.query<{ name: string; sha256: string }>(
    "select name, sha256 from schema_migration order by name",
  );
  return rows;
};

/** Whether no core has used the database: it is empty, or has the tables alone, since a restore of it ended early. */
export const isUnused = async (client: Client): Promise<boolean> => {
  const { rows } = await client.query<{ present: boolean }>(
    "select to_regclass('schema_definition') is not null as present",
  );
  if (rows[0]?.present !== true) return true;
  return (await client.query("select from schema_definition where name = 'audit-append-only'")).rowCount === 0;
};

/** Begins to replace the rows of tables that migrations alone have filled. */
export const beginRestore = async (client: Client, tables: readonly BackupTable[]): Promise<void> => {
  await client.query("begin");
  await client.query(`truncate ${tables.map(({ name }) => identifier(name)).join(", ")} cascade`);
  for (const { name, partitions } of tables)
    for (const partition of partitions)
      await client.query(
        `create table if not exists ${identifier(partition.name)} partition of ${identifier(name)} ${partition.bound}`,
      );
};

/** Has `pour` write the rows of a table into the stream that it gets; returns how many there were. */
export const writeRows = async (
  client: Client,
  table: BackupTable,
  pour: (copy: CopyStreamQuery) => Promise<void>,
): Promise<number> => {
  const copy = client.query(copyFrom(`copy ${identifier(table.name)} (${columnList(table)}) from stdin`));
  await pour(copy);
  return copy.rowCount;
};

/** Ends a restore: sequences go on where they were, and the planner knows the tables. */
export const commitRestore = async (client: Client, sequences: Readonly<Record<string, string>>): Promise<void> => {
  for (const [name, value] of Object.entries(sequences))
    await client.query(`select setval(${literal(identifier(name))}::regclass, ${literal(value)}::bigint)`);
  await client.query("commit");
  await client.query("analyze");
};

/** What a database has since the time of a backup, which restoring it would undo. */
export interface SinceBackup {
  /** Successful actions of the audit log, by their name. */
  actions: Record<string, number>;
  certificates: number;
  hosts: number;
  /** Envelopes that core stored, and of how many hosts. */
  envelopes: string;
  forwarding_hosts: number;
  /** People whose access a restore holds until the directory states it again. */
  people: number;
}

/** Counts what the database has since `at`; with everything of its telemetry when the backup has none. */
export const countSince = async (client: Client, at: string, hasTelemetry: boolean): Promise<SinceBackup> => {
  const { rows } = await client.query<SinceBackup>(
    `select
       (select coalesce(json_object_agg(action, n), '{}') from (select action, count(*)::int as n from audit_event
         where occurred_at > $1 and outcome = 'success' group by action) as a) as actions,
       (select count(*)::int from certificate where issued_at > $1) as certificates,
       (select count(*)::int from collector_identity where enrolled_at > $1) as hosts,
       (select coalesce(sum(envelopes), 0)::text from ingest_block where received_at > $2) as envelopes,
       (select count(distinct host_id)::int from ingest_block where received_at > $2) as forwarding_hosts,
       (select count(*)::int from person where status = 'active') as people`,
    [at, hasTelemetry ? at : "-infinity"],
  );
  if (rows[0] === undefined) throw new Error("no row");
  return rows[0];
};
