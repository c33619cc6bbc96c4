/**
 * Brings databases to the schema of this program. Invariants:
 * - Everything that one call applies commits in one transaction, with its records, under one advisory lock. So any number of cores may
 *   start at once, and a kill at any point leaves the database unchanged.
 * - Rows are recomputed after it, in short transactions, and again until that is recorded: nothing is served while the first transaction
 *   holds its locks.
 * - Migrations are append-only, and a record is never changed: an older core starts on its database again after a newer one has migrated
 *   it.
 * - A database that a newer core has migrated stays as it is, including its definitions.
 */

import { namingBlockers } from "./migration-blockers.ts";
import type { SqlClient, SqlRunner } from "./pool/sql-client.ts";
import { databaseProblem } from "./problem.ts";

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
  /** Updates a database whose first migration has one of these digests to that migration's present text; applied once, after it. */
  readonly baselineEdits: SqlFile & { readonly from: readonly string[] };
  /**
   * Views, functions, triggers and settings, each whole and idempotent. All are applied, in this order, when one has changed or a migration
   * was applied: they may use each other, and a migration may drop those that depend on a table that it alters.
   */
  readonly definitions: readonly SqlFile[];
  /** Increases with each change of the definitions, so that an older core recognizes newer ones. */
  readonly definitionsRevision: number;
  /** The version of this program: `0.3.0`. */
  readonly version: string;
  /** A procedure of the definitions that updates rows to them, and commits as it goes; null without one. */
  readonly recompute: string | null;
  /**
   * For each version of core, the newest first: the table that its most frequent transactions lock first. A migration locks the first of
   * these that exists before all others. In another order, the two would deadlock and the migration would reach its lock timeout at every
   * attempt.
   */
  readonly lockedFirst: readonly string[];
}

/** The changes made by a call of `migrate`. */
interface MigrationReport {
  /** Names of migrations and definitions. */
  applied: string[];
}

/** This program cannot use the database. The message is one sentence on what to do; a retry does not help. */
export class SchemaMismatch extends Error {
  override readonly name = "SchemaMismatch";
}

// Any constant works if all cores of a database use the same.
const lockKey = 7_303_014_592_618_311n;

/**
 * How long a migration waits for a lock: statements on the same table wait behind it. A failed attempt changes nothing and can be repeated.
 */
const lockTimeoutMs = 500;

/**
 * Brings the database to the schema of this program. Throws `SchemaMismatch` when that is not possible, and `MigrationBlocked` when another
 * transaction uses a table that it has to change: then it may be called again.
 */
export const migrate = async (sql: SqlClient, files: SchemaFiles): Promise<MigrationReport> => {
  const { applied, isNewest } = await namingBlockers(sql, (takesLocksAs) =>
    applyPending(sql, files, takesLocksAs),
  );
  if (isNewest && files.recompute !== null) await recompute(sql, files.recompute);
  return { applied };
};

/** Records that rows were recomputed since something was applied. */
const recomputed = "recomputed";

const recompute = async (sql: SqlClient, procedure: string) => {
  const [done] = await sql`select 1 from schema_definition where name = ${recomputed}`;
  if (done !== undefined) return;
  await sql.unsafe(`call ${procedure}()`);
  await sql`insert into schema_definition ${sql({ name: recomputed, sha256: "" })} on conflict do nothing`;
};

const applyPending = (
  sql: SqlClient,
  files: SchemaFiles,
  takesLocksAs: (pid: number) => void,
): Promise<MigrationReport & { isNewest: boolean }> =>
  sql.begin(async (transaction) => {
    await transaction`select pg_advisory_xact_lock(${lockKey}::bigint)`;
    // No limit: a migration of a large table may take long.
    await transaction`set local statement_timeout = 0`;
    await transaction.unsafe(`set local lock_timeout = ${lockTimeoutMs}`);
    await transaction`set local client_min_messages = warning`;
    for (const table of ["schema_migration", "schema_definition"])
      await transaction`create table if not exists ${transaction(table)} (
        name text primary key, sha256 text not null, applied_at timestamptz not null default now())`;
    const { migrations, definitions, isNewest } = pendingFiles(
      await readRecords(transaction),
      files,
    );
    if (migrations.length + definitions.length > 0) {
      const [own] = await transaction<{ pid: number }[]>`select pg_backend_pid() as pid`;
      if (own !== undefined) takesLocksAs(own.pid);
      await lockExisting(transaction, files.lockedFirst);
    }
    for (const { name, sha256, text } of migrations) {
      await apply(transaction, name, text);
      await transaction`insert into schema_migration ${transaction({ name, sha256 })}`;
    }
    for (const { name, sha256, text } of definitions) {
      await apply(transaction, name, text);
      await transaction`insert into schema_definition ${transaction({ name, sha256 })}
        on conflict (name) do update set sha256 = excluded.sha256, applied_at = excluded.applied_at`;
    }
    if (definitions.length > 0) {
      await transaction`delete from schema_definition where name = ${recomputed}`;
      // As migrations, also for cores that do not know revisions: they leave newer definitions alone.
      const versionName = `${versionPrefix}${minorOf(files.version).join(".")}`;
      for (const name of [revisionName(files), versionName])
        await transaction`insert into schema_migration ${transaction({ name, sha256: "" })} on conflict do nothing`;
    }
    return { applied: [...migrations, ...definitions].map(({ name }) => name), isNewest };
  }) as Promise<MigrationReport & { isNewest: boolean }>;

/** Locks the first of the tables that exists. */
const lockExisting = async (transaction: SqlRunner, tables: readonly string[]) => {
  for (const table of tables) {
    const [known] = await transaction<
      { exists: boolean }[]
    >`select to_regclass(${table}) is not null as exists`;
    if (!known?.exists) continue;
    await transaction`lock table ${transaction(table)} in access exclusive mode`;
    return;
  }
};

/** Returns the names of what `migrate` would apply. Throws `SchemaMismatch` where `migrate` does. */
export const pendingMigrations = async (sql: SqlClient, files: SchemaFiles): Promise<string[]> => {
  const [tables] = await sql<
    { present: boolean }[]
  >`select to_regclass('schema_definition') is not null as present`;
  const records = tables?.present
    ? await readRecords(sql)
    : { migrations: new Map(), definitions: new Map() };
  const { migrations, definitions } = pendingFiles(records, files);
  return [...migrations, ...definitions].map(({ name }) => name);
};

/** Digests of what the database has, by name. */
interface SchemaRecords {
  migrations: ReadonlyMap<string, string>;
  definitions: ReadonlyMap<string, string>;
}

const readRecords = async (sql: SqlClient | SqlRunner): Promise<SchemaRecords> => {
  const [migrations, definitions] = await Promise.all([
    sql<SqlFile[]>`select name, sha256 from schema_migration`,
    sql<SqlFile[]>`select name, sha256 from schema_definition`,
  ]);
  return { migrations: digestsOf(migrations), definitions: digestsOf(definitions) };
};

const digestsOf = (files: readonly SqlFile[]) =>
  new Map(files.map(({ name, sha256 }) => [name, sha256]));

const apply = async (transaction: SqlRunner, name: string, text: string) => {
  try {
    await transaction.unsafe(text);
  } catch (cause) {
    if (!(cause instanceof Error) || databaseProblem(cause)?.code === "database_unavailable")
      throw cause;
    throw new SchemaMismatch(`${name} cannot be applied to this database: ${cause.message}`, {
      cause,
    });
  }
};

const exported =
  'export what is in it with pg_dump --format=custom --file=core.dump "$SVC_DATABASE_URL", and start this version on an empty ' +
  "database (docs/upgrade.md)";

/** Returns the files to apply, and whether the database is not of a newer version. */
const pendingFiles = (
  records: SchemaRecords,
  files: SchemaFiles,
): Pick<SchemaFiles, "migrations" | "definitions"> & { isNewest: boolean } => {
  const { migrations: applied } = records;
  refuseDistant(applied, files);
  const own = migrationsFor(applied, files);
  const edited = own.find(({ name, sha256 }) => (applied.get(name) ?? sha256) !== sha256);
  if (edited !== undefined)
    throw new SchemaMismatch(
      `this database has a text of ${edited.name} that no version upgrades: ${exported}`,
    );
  const pending = own.filter(({ name }) => !applied.has(name));
  const later = laterMigrations(applied, files);
  const breaking = later.find((name) => name.endsWith("_breaking"));
  if (breaking !== undefined)
    throw new SchemaMismatch(
      `this database was migrated by a newer version, with which this one is not compatible (${breaking}): start that version`,
    );
  if (later.length > 0 && pending.length > 0)
    throw new SchemaMismatch(
      `this database has ${listOf(later)}, which this version does not know, and lacks ${listOf(pending.map(({ name }) => name))}: ` +
        `start the version that migrated it, or ${exported}`,
    );
  const isChanged =
    !applied.has(revisionName(files)) ||
    files.definitions.some(({ name, sha256 }) => records.definitions.get(name) !== sha256);
  const definitions =
    later.length === 0 && (isChanged || pending.length > 0) ? files.definitions : [];
  return { migrations: pending, definitions, isNewest: later.length === 0 };
};

/** Returns the migrations that bring this database to the present schema; the edit of the baseline only if it has an earlier text. */
const migrationsFor = (
  applied: SchemaRecords["migrations"],
  files: SchemaFiles,
): readonly SqlFile[] => {
  const [baseline, ...rest] = files.migrations;
  if (baseline === undefined || applied.size === 0) return files.migrations;
  const sha256 = applied.get(baseline.name);
  if (sha256 === undefined)
    throw new SchemaMismatch(
      `this database was made before ${baseline.name} and cannot be upgraded: ${exported}`,
    );
  const isEarlier = files.baselineEdits.from.includes(sha256);
  return isEarlier ? [{ ...baseline, sha256 }, files.baselineEdits, ...rest] : files.migrations;
};

/** Rejects a schema that is more than one minor version newer: `upgrade-test` never ran this version on it. */
const refuseDistant = (applied: SchemaRecords["migrations"], { version }: SchemaFiles) => {
  const [major, minor] = minorOf(version);
  const isServed = ([otherMajor, otherMinor]: [number, number]) =>
    otherMajor === major
      ? otherMinor <= minor + 1
      : otherMajor < major || (otherMajor === major + 1 && otherMinor === 0);
  const names = [...applied.keys()].filter((name) => name.startsWith(versionPrefix));
  const distant = names
    .map((name) => name.slice(versionPrefix.length))
    .find((name) => !isServed(minorOf(name)));
  if (distant !== undefined)
    throw new SchemaMismatch(
      `this database was migrated by version ${distant}, and ${version} serves on the schema of the next minor version at most: ` +
        `start ${distant} or the one before it`,
    );
};

const versionPrefix = "version_";

const minorOf = (version: string): [number, number] => {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  return [major, minor];
};

/** Returns the names of what a newer core has applied, in order. */
const laterMigrations = (applied: SchemaRecords["migrations"], files: SchemaFiles): string[] => {
  const known = new Set([...files.migrations, files.baselineEdits].map(({ name }) => name));
  return [...applied.keys()]
    .filter(
      (name) =>
        !known.has(name) && !name.startsWith(versionPrefix) && !isKnownRevision(name, files),
    )
    .sort();
};

const revisionName = ({ definitionsRevision }: SchemaFiles) => `definitions_${definitionsRevision}`;

const isKnownRevision = (name: string, { definitionsRevision }: SchemaFiles) =>
  Number(/^definitions_(\d+)$/.exec(name)?.[1]) <= definitionsRevision;

const listOf = (names: readonly string[]) => names.join(", ");
