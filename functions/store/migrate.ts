/**
 * Invariants: all that one call applies commits in one transaction, with its records, under one advisory lock. So any number of cores may
 * start at once, and a kill at any point leaves the database as it was. Migrations are append-only. A database that a newer core has
 * migrated stays as it is, its definitions included.
 */
import type { Sql, TransactionSql } from "postgres";

/** One file of SQL. */
export interface SqlFile {
  readonly name: string;
  readonly sha256: string;
  readonly text: string;
}

/** The schema of this program. */
export interface SchemaFiles {
  /** Each applied once, in this order. An applied one is never edited: its digest is checked. */
  readonly migrations: readonly SqlFile[];
  /**
   * Views, functions, triggers and settings, each whole and idempotent. All are applied, in this order, when one has changed or a
   * migration was applied: they may use each other, and a migration may drop what depends on a table that it alters.
   */
  readonly definitions: readonly SqlFile[];
}

/** The changes that a call of `migrate` made. */
export interface MigrationReport {
  /** Names of migrations and definitions. */
  applied: string[];
}

// Any constant works if all cores of a database use the same.
const lockKey = 7_303_014_592_618_311n;

/**
 * Brings the database to the schema of this program. Throws when an applied migration was edited since, and when the database was made
 * by a version from before the first migration.
 */
export const migrate = (sql: Sql, files: SchemaFiles): Promise<MigrationReport> =>
  sql.begin(async (transaction) => {
    await transaction`select pg_advisory_xact_lock(${lockKey.toString()}::bigint)`;
    // A migration of a large table takes as long as it takes.
    await transaction`set local statement_timeout = 0`;
    await transaction`set local client_min_messages = warning`;
    for (const table of ["schema_migration", "schema_definition"])
      await transaction`create table if not exists ${transaction(table)} (
        name text primary key, sha256 text not null, applied_at timestamptz not null default now())`;
    const records = await readRecords(transaction);
    rejectUnusable(records, files);
    const { migrations, definitions } = pendingFiles(records, files);
    for (const { name, sha256, text } of migrations) {
      await transaction.unsafe(text);
      await transaction`insert into schema_migration ${transaction({ name, sha256 })}`;
    }
    for (const { name, sha256, text } of definitions) {
      await transaction.unsafe(text);
      await transaction`insert into schema_definition ${transaction({ name, sha256 })}
        on conflict (name) do update set sha256 = excluded.sha256, applied_at = excluded.applied_at`;
    }
    return { applied: [...migrations, ...definitions].map(({ name }) => name) };
  }) as Promise<MigrationReport>;

/** Returns the names of what `migrate` would apply. */
export const pendingMigrations = async (sql: Sql, files: SchemaFiles): Promise<string[]> => {
  const [tables] = await sql<{ present: boolean }[]>`select to_regclass('schema_definition') is not null as present`;
  const records = tables?.present ? await readRecords(sql) : { migrations: new Map(), definitions: new Map() };
  const { migrations, definitions } = pendingFiles(records, files);
  return [...migrations, ...definitions].map(({ name }) => name);
};

/** Digests of what the database has, by name. */
interface SchemaRecords {
  migrations: ReadonlyMap<string, string>;
  definitions: ReadonlyMap<string, string>;
}

const readRecords = async (sql: Sql | TransactionSql): Promise<SchemaRecords> => {
  const [migrations, definitions] = await Promise.all([
    sql<SqlFile[]>`select name, sha256 from schema_migration`,
    sql<SqlFile[]>`select name, sha256 from schema_definition`,
  ]);
  return { migrations: digestsOf(migrations), definitions: digestsOf(definitions) };
};

const digestsOf = (files: readonly SqlFile[]) => new Map(files.map(({ name, sha256 }) => [name, sha256]));

const rejectUnusable = (records: SchemaRecords, { migrations }: SchemaFiles): void => {
  const [baseline] = migrations;
  if (baseline && records.migrations.size > 0 && !records.migrations.has(baseline.name))
    throw new Error(
      "this database was made by an unreleased version of core and cannot be upgraded: dump what you want to keep, drop the database, " +
        "create it again and start core (docs/operate.md, Upgrading)",
    );
  for (const { name, sha256 } of migrations)
    if ((records.migrations.get(name) ?? sha256) !== sha256)
      throw new Error(`migration ${name} was edited after this database applied it`);
};

const pendingFiles = (records: SchemaRecords, files: SchemaFiles): SchemaFiles => {
  const migrations = files.migrations.filter(({ name }) => !records.migrations.has(name));
  const isAhead = records.migrations.size > files.migrations.length - migrations.length;
  const isChanged = files.definitions.some(({ name, sha256 }) => records.definitions.get(name) !== sha256);
  return { migrations, definitions: !isAhead && (isChanged || migrations.length > 0) ? files.definitions : [] };
};
