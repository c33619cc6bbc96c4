import { expect, inject, it } from "vitest";
import { openDatabaseSocket } from "#functions/node/database/database-servers.ts";
import { readMigrations } from "#functions/node/read-migrations.ts";
import { readCatalog } from "#tests/support/database/schema-catalog.ts";
import { useTestDatabase } from "#tests/support/database.ts";
import { connectDatabase } from "./database.ts";
import {
  migrate,
  pendingMigrations,
  type SchemaFiles,
  SchemaMismatch,
  type SqlFile,
} from "./migrate.ts";
import { databaseProblem, isLockTimeout } from "./problem.ts";

/** A database without any table of core. */
const emptyDatabase = async () => {
  const database = await useTestDatabase();
  const { sql } = database.connect();
  await sql`drop schema public cascade`;
  await sql`create schema public`;
  return database;
};

const connectEmpty = async () => (await emptyDatabase()).connect().sql;
type Sql = Awaited<ReturnType<typeof connectEmpty>>;

const file = (name: string, text: string) => ({ name, sha256: text, text });
const files = (
  migrations: readonly SqlFile[],
  definitions: readonly SqlFile[] = [],
  {
    revision = 1,
    edits = "",
    version = "0.3.0",
  }: { revision?: number; edits?: string; version?: string } = {},
) => ({
  migrations,
  baselineEdits: { ...file("0000_edits", edits), from: ["earlier"] },
  definitions,
  definitionsRevision: revision,
  version,
  recompute: null,
  lockedFirst: [],
});
const appliedTo = async (sql: Sql, schema: SchemaFiles) => (await migrate(sql, schema)).applied;
const namesOf = (schema: SchemaFiles) =>
  [...schema.migrations, ...schema.definitions].map(({ name }) => name);

const baseline = file("0000", "create table a (x int)");
const second = file("0001", "create table b (x int)");
const view = (answer: number) =>
  file("answer", `create or replace view answer as select ${answer} as answer`);
const answerOf = async (sql: Sql) => (await sql`select answer from answer`)[0]?.answer;
const tablesOf = (sql: Sql) =>
  sql`select relname from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r'`;

it("D4: four migrators at once apply everything once", async () => {
  const database = await emptyDatabase();
  const schema = await readMigrations();
  expect(schema.migrations.length).toBeGreaterThan(0);
  expect(schema.definitions.length).toBeGreaterThan(0);
  const reports = await Promise.all(
    Array.from({ length: 4 }, () => migrate(database.connect().sql, schema)),
  );
  expect(reports.flatMap(({ applied }) => applied)).toEqual(namesOf(schema));
  expect(await pendingMigrations(database.connect().sql, schema)).toEqual([]);
});

it("D4: a migrator killed in the middle changes nothing, and the next one applies everything", async () => {
  const database = await emptyDatabase();
  const { sql } = database.connect();
  const paused = (pause: string) =>
    file("0001", `create table b (x int); ${pause} create table c (x int)`);
  const victim = connectDatabase({
    url: database.url,
    connectionsMax: 1,
    openSocket: openDatabaseSocket,
  });
  const killed = migrate(victim.sql, files([baseline, paused("select pg_sleep(30);")])).then(
    () => "done",
    (err: unknown) => databaseProblem(err)?.code,
  );
  await expect
    .poll(async () => {
      const ended = await sql`select pg_terminate_backend(pid) from pg_stat_activity
          where datname = current_database() and wait_event = 'PgSleep'`;
      return ended.length;
    })
    .toBe(1);
  expect(await killed).toBe("database_unavailable");
  await victim.close(0);
  expect(await tablesOf(sql)).toEqual([]);
  const whole = files([baseline, paused("")]);
  expect(await pendingMigrations(sql, whole)).toEqual(["0000", "0001"]);
  expect(await appliedTo(sql, whole)).toEqual(["0000", "0001"]);
});

it("rejects a migration that was edited after it was applied", async () => {
  const sql = await connectEmpty();
  await migrate(sql, files([baseline]));
  const edited = files([file("0000", "other")]);
  for (const call of [migrate, pendingMigrations])
    await expect(call(sql, edited)).rejects.toThrow(
      new SchemaMismatch(
        "this database has a text of 0000 that no version upgrades: export what is in it with pg_dump --format=custom " +
          '--file=core.dump "$SVC_DATABASE_URL", and start this version on an empty database (docs/upgrade.md)',
      ),
    );
});

it("D7: brings an earlier text of the baseline up to date once, and lets the core that applied it start again", async () => {
  const sql = await connectEmpty();
  const previous = {
    ...files([{ ...file("0000", "earlier"), text: "create table a ()" }], [view(1)]),
    baselineEdits: { ...file("0000_older_edits", ""), from: [] },
  };
  await migrate(sql, previous);
  const present = files([baseline, second], [view(2)], {
    edits: "alter table a add column x int",
  });
  expect(await pendingMigrations(sql, present)).toEqual(["0000_edits", "0001", "answer"]);
  expect(await appliedTo(sql, present)).toEqual(["0000_edits", "0001", "answer"]);
  expect(await appliedTo(sql, present)).toEqual([]);
  expect(await appliedTo(sql, previous)).toEqual([]);
  expect(await sql`select x, answer from a right join answer on true`).toEqual([
    { x: null, answer: 2 },
  ]);
});

it("carries a database of the previous text of this repository's baseline over", async () => {
  const fresh = await useTestDatabase();
  const sql = await connectEmpty();
  const schema = await readMigrations();
  const [first, ...later] = schema.migrations;
  await migrate(sql, {
    ...schema,
    migrations: first ? [first] : [],
    definitions: [],
    recompute: null,
  });
  // As commit 2e2363a made it: no table of exports, and none of ended sessions.
  await sql`drop table ended_web_session, export_position, export_dead_letter`;
  await sql`delete from schema_migration where name like 'definitions_%'`;
  await sql`update schema_migration set sha256 = 'e3ad64b8fa7c57acf7b81f38cb12bdd19cae463ba2400313e14b1ffa3c1de92d'`;
  expect(await migrate(sql, schema)).toEqual({
    applied: ["0000_baseline_edits", ...[...later, ...schema.definitions].map(({ name }) => name)],
  });
  expect(await readCatalog(sql)).toEqual(await readCatalog(fresh.connect().sql));
});

it("rejects a database that an unreleased version made, and leaves it as it is", async () => {
  const sql = await connectEmpty();
  // The table of the previous migrator.
  await sql`create table schema_migration (name text primary key, sha256 text not null, applied_at timestamptz not null default now())`;
  await sql`insert into schema_migration (name, sha256) values ('0000_initial', 'a'), ('0001_ingest_envelope', 'b')`;
  const schema = await readMigrations();
  await expect(migrate(sql, schema)).rejects.toThrow(
    "this database was made before 0000_baseline and cannot be upgraded: export what is in it with pg_dump",
  );
  expect(await pendingMigrations(sql, schema)).toEqual(namesOf(schema));
  expect(await tablesOf(sql)).toEqual([{ relname: "schema_migration" }]);
});

it("applies all definitions again when one has changed or a migration was applied, and not otherwise", async () => {
  const sql = await connectEmpty();
  const other = file("other", "create or replace view other as select answer from answer");
  const first = files([baseline], [view(1), other]);
  expect(await appliedTo(sql, first)).toEqual(["0000", "answer", "other"]);
  expect(await appliedTo(sql, first)).toEqual([]);

  const changed = files([baseline], [view(2), other]);
  expect(await pendingMigrations(sql, changed)).toEqual(["answer", "other"]);
  expect(await appliedTo(sql, changed)).toEqual(["answer", "other"]);
  expect(await sql`select answer from other`).toEqual([{ answer: 2 }]);

  const altering = files([baseline, file("0001", "drop view other")], changed.definitions);
  expect(await appliedTo(sql, altering)).toEqual(["0001", "answer", "other"]);
  expect(await sql`select answer from other`).toEqual([{ answer: 2 }]);
});

it("D7: an older core leaves the schema and the definitions of a newer one alone", async () => {
  const sql = await connectEmpty();
  await migrate(sql, files([baseline, second], [view(2)]));
  const older = files([baseline], [view(1)]);
  expect(await pendingMigrations(sql, older)).toEqual([]);
  expect(await appliedTo(sql, older)).toEqual([]);
  expect(await answerOf(sql)).toBe(2);
});

it("D7: two cores whose definitions alone differ do not apply theirs in turn: the later revision stays", async () => {
  const sql = await connectEmpty();
  const older = files([baseline], [view(1)]);
  const newer = files([baseline], [view(2)], { revision: 2 });
  await migrate(sql, older);
  expect(await appliedTo(sql, newer)).toEqual(["answer"]);
  expect(await appliedTo(sql, older)).toEqual([]);
  expect(await pendingMigrations(sql, older)).toEqual([]);
  expect(await pendingMigrations(sql, newer)).toEqual([]);
  expect(await answerOf(sql)).toBe(2);
});

it("D7: rejects a newer database when a migration says that it breaks older cores", async () => {
  const sql = await connectEmpty();
  await migrate(sql, files([baseline, file("0001_drop_a_breaking", "drop table a")]));
  await expect(migrate(sql, files([baseline]))).rejects.toThrow(
    new SchemaMismatch(
      "this database was migrated by a newer version, with which this one is not compatible (0001_drop_a_breaking): start that version",
    ),
  );
});

it("D7: serves on the schema of the next minor version, and refuses that of a later one", async () => {
  const sql = await connectEmpty();
  const next = (version: string, revision: number) =>
    files([baseline], [view(revision)], { version, revision });
  const own = files([baseline], [view(1)], { version: "0.3.7" });
  await migrate(sql, next("0.4.2", 2));
  for (const older of [own, files([baseline], [view(1)], { version: "0.4.0" })])
    expect(await appliedTo(sql, older)).toEqual([]);
  await migrate(sql, next("0.5.0", 3));
  for (const call of [migrate, pendingMigrations])
    await expect(call(sql, own)).rejects.toThrow(
      new SchemaMismatch(
        "this database was migrated by version 0.5, and 0.3.7 serves on the schema of the next minor version at most: start 0.5 or " +
          "the one before it",
      ),
    );
  expect(await appliedTo(sql, next("0.4.2", 2))).toEqual([]);
  await migrate(sql, next("1.0.0", 4));
  expect(await appliedTo(sql, next("0.5.0", 3))).toEqual([]);
  await migrate(sql, next("1.1.0", 5));
  await expect(migrate(sql, next("0.5.0", 3))).rejects.toThrow(
    "was migrated by version 1.1, and 0.5.0 serves",
  );
  expect(await answerOf(sql)).toBe(5);
});

it("waits for a table in use for half a second, so that others wait no longer, and leaves the database as it was", async () => {
  const database = await emptyDatabase();
  const { sql } = database.connect();
  await migrate(sql, files([baseline], [view(1)]));
  const changing = files(
    [baseline, file("0001", "create table b (); alter table a add column y int")],
    [view(1)],
  );
  await sql.begin(async (reader) => {
    await reader`lock table a in access share mode`;
    await expect(migrate(database.connect().sql, changing)).rejects.toSatisfy(isLockTimeout);
  });
  expect(await sql`select to_regclass('b') as b`).toEqual([{ b: null }]);
  expect(await appliedTo(sql, changing)).toEqual(["0001", "answer"]);
});

it("takes the first table of the most frequent transactions that exists, so that one that has it gets the others", async () => {
  const sql = await connectEmpty();
  const tables = file("0000", "create table first (); create table other ()");
  await migrate(sql, files([tables]));
  const change = file(
    "0001",
    "alter table other add column x int; alter table first add column x int",
  );
  let migrated: Promise<unknown> | undefined;
  await sql.begin(async (commit) => {
    await commit`lock table first in row exclusive mode`;
    migrated = migrate(sql, { ...files([tables, change]), lockedFirst: ["later", "first"] });
    await expect.poll(() => sql`select 1 from pg_locks where not granted`).toHaveLength(1);
    await commit`lock table other in row exclusive mode`;
  });
  await expect(migrated).resolves.toEqual({ applied: ["0001"] });
});

it("recomputes rows after the transaction, again until that has ended, and not for a newer core's schema", async () => {
  const sql = await connectEmpty();
  const procedure = (last: string) =>
    file(
      last,
      `create table if not exists runs (x int); create or replace procedure recount() language plpgsql as $$
         begin insert into runs values (1); commit; ${last}; end $$`,
    );
  const schema = (last: string, revision: number) => ({
    ...files([baseline], [procedure(last)], { revision }),
    recompute: "recount",
  });
  const runs = async () => (await sql`select from runs`).length;
  await migrate(sql, schema("null", 1));
  await migrate(sql, schema("null", 1));
  expect(await runs()).toBe(1);
  await expect(migrate(sql, schema("perform 1 / 0", 2))).rejects.toThrow("division by zero");
  await expect(migrate(sql, schema("perform 1 / 0", 2))).rejects.toThrow("division by zero");
  expect(await runs()).toBe(3);
  await migrate(sql, schema("null", 1));
  expect(await runs()).toBe(3);
  await migrate(sql, schema("return", 3));
  await migrate(sql, schema("return", 3));
  expect(await runs()).toBe(4);
});

it("rejects a database that has an unknown migration and lacks a known one", async () => {
  const sql = await connectEmpty();
  await migrate(sql, files([baseline, file("0001_theirs", "create table b ()")]));
  const ours = files([baseline, file("0001_ours", "create table c ()")]);
  await expect(migrate(sql, ours)).rejects.toThrow(
    /has 0001_theirs, which this version does not know, and lacks 0001_ours: start the version that migrated it, or export/,
  );
  expect(await sql`select to_regclass('c') as c`).toEqual([{ c: null }]);
});

it("names the file that cannot be applied, and the server's reason", async () => {
  const sql = await connectEmpty();
  await sql`create table a ()`;
  await expect(migrate(sql, files([baseline]))).rejects.toThrow(
    new SchemaMismatch('0000 cannot be applied to this database: relation "a" already exists'),
  );
});

it("applies the definitions of this repository a second time without a change", async () => {
  const { sql } = (await useTestDatabase()).connect();
  const { definitions } = await readMigrations();
  const before = await readCatalog(sql);
  for (const { text } of definitions) await sql.unsafe(text);
  expect(await readCatalog(sql)).toEqual(before);
});

it("gives every test a migrated, empty database of its own", async () => {
  const one = await useTestDatabase();
  expect(one.url).toContain(inject("database").prefix);
  expect(await one.connect().sql`select count(*)::int as rows from ingest_envelope`).toEqual([
    { rows: 0 },
  ]);
});
