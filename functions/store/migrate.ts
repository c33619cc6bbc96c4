/**
 * Invariants: a migration and its record in `schema_migration` commit together, under one advisory lock, so any number of cores
 * may start at once and a kill at any moment leaves whole migrations only. Migrations are append-only. A database that is ahead of
 * this program (a newer core ran before) is left as it is.
 */
import type { Sql } from "postgres";

/** One migration: its name sorts by age, its statements run in order, its digest tells when it was edited after release. */
export interface Migration {
  readonly name: string;
  readonly sha256: string;
  readonly statements: readonly string[];
}

/** What a call of `migrate` did. */
export interface MigrationReport {
  applied: string[];
}

// Any constant works, as long as every core of a database takes the same.
const lockKey = 7_303_014_592_618_311n;

/** Brings the database to the last of `migrations`; throws when an applied one has been edited since. */
export const migrate = async (sql: Sql, migrations: readonly Migration[]): Promise<MigrationReport> => {
  const report: MigrationReport = { applied: [] };
  for (const migration of migrations) if (await apply(sql, migration)) report.applied.push(migration.name);
  return report;
};

/** Names of the migrations that the database does not have yet. */
export const pendingMigrations = async (sql: Sql, migrations: readonly Migration[]): Promise<string[]> => {
  const [table] = await sql<{ present: boolean }[]>`select to_regclass('schema_migration') is not null as present`;
  if (!table?.present) return migrations.map(({ name }) => name);
  const rows = await sql<{ name: string }[]>`select name from schema_migration`;
  const applied = new Set(rows.map(({ name }) => name));
  return migrations.map(({ name }) => name).filter((name) => !applied.has(name));
};

const apply = (sql: Sql, migration: Migration): Promise<boolean> =>
  sql.begin(async (transaction) => {
    await transaction`select pg_advisory_xact_lock(${lockKey.toString()}::bigint)`;
    await transaction`set local client_min_messages = warning`;
    await transaction`create table if not exists schema_migration (
      name text primary key, sha256 text not null, applied_at timestamptz not null default now())`;
    const [applied] = await transaction<{ sha256: string }[]>`
      select sha256 from schema_migration where name = ${migration.name}`;
    if (applied) {
      if (applied.sha256 === migration.sha256) return false;
      throw new Error(`migration ${migration.name} was edited after this database applied it`);
    }
    for (const statement of migration.statements) await transaction.unsafe(statement);
    await transaction`insert into schema_migration ${transaction({ name: migration.name, sha256: migration.sha256 })}`;
    return true;
  }) as Promise<boolean>;
