import { afterEach, describe, expect, inject, it } from "vitest";
import { createTestDatabase, type TestDatabase } from "../../tests/database.ts";
import { openDatabaseSocket } from "../node/database-socket.ts";
import { readMigrations } from "../node/read-migrations.ts";
import { connectDatabase } from "./database.ts";
import { migrate, pendingMigrations, type SchemaFiles, type SqlFile } from "./migrate.ts";

const databases: TestDatabase[] = [];
afterEach(async () => {
  for (const database of databases.splice(0)) await database.drop();
});

/** A database without any table of core. */
const emptyDatabase = async (): Promise<TestDatabase> => {
  const database = await createTestDatabase();
  databases.push(database);
  const { sql } = database.connect();
  await sql`drop schema public cascade`;
  await sql`create schema public`;
  return database;
};

const file = (name: string, text: string): SqlFile => ({ name, sha256: text, text });
const files = (migrations: readonly SqlFile[], definitions: readonly SqlFile[] = []): SchemaFiles => ({
  migrations,
  definitions,
});
const namesOf = (schema: SchemaFiles) => [...schema.migrations, ...schema.definitions].map(({ name }) => name);

const baseline = file("0000", "create table a (x int)");
const view = (text: string) => file("answer", `create or replace view answer as select ${text} as answer`);

describe("migrate", () => {
  it("D4: four migrators at once apply everything once", async () => {
    const database = await emptyDatabase();
    const schema = await readMigrations();
    expect(schema.migrations.length).toBeGreaterThan(0);
    expect(schema.definitions.length).toBeGreaterThan(0);
    const reports = await Promise.all(Array.from({ length: 4 }, () => migrate(database.connect().sql, schema)));
    expect(reports.flatMap(({ applied }) => applied)).toEqual(namesOf(schema));
    expect(await pendingMigrations(database.connect().sql, schema)).toEqual([]);
  });

  it("D4: a migrator killed in the middle changes nothing, and the next one applies everything", async () => {
    const database = await emptyDatabase();
    const { sql } = database.connect();
    const second = (pause: string) => file("0001", `create table b (x int); ${pause} create table c (x int)`);
    const victim = connectDatabase({ url: database.url, connectionsMax: 1, openSocket: openDatabaseSocket });
    const killed = migrate(victim.sql, files([baseline, second("select pg_sleep(30);")])).then(
      () => "done",
      (err: { code: string }) => err.code,
    );
    await expect
      .poll(async () => {
        const ended = await sql`select pg_terminate_backend(pid) from pg_stat_activity
          where datname = current_database() and wait_event = 'PgSleep'`;
        return ended.length;
      })
      .toBe(1);
    expect(await killed).toBe("57P01");
    await victim.close(0);
    expect(await sql`select relname from pg_class where relnamespace = 'public'::regnamespace`).toEqual([]);
    const whole = files([baseline, second("")]);
    expect(await pendingMigrations(sql, whole)).toEqual(["0000", "0001"]);
    expect(await migrate(sql, whole)).toEqual({ applied: ["0000", "0001"] });
  });

  it("rejects a migration that was edited after it was applied", async () => {
    const { sql } = (await emptyDatabase()).connect();
    await migrate(sql, files([baseline]));
    await expect(migrate(sql, files([file("0000", "other")]))).rejects.toThrow("0000 was edited");
  });

  it("rejects a database that an unreleased version made, and leaves it as it is", async () => {
    const { sql } = (await emptyDatabase()).connect();
    // The table of the previous migrator.
    await sql`create table schema_migration (name text primary key, sha256 text not null, applied_at timestamptz not null default now())`;
    await sql`insert into schema_migration (name, sha256) values ('0000_initial', 'a'), ('0001_ingest_envelope', 'b')`;
    const schema = await readMigrations();
    await expect(migrate(sql, schema)).rejects.toThrow(
      "made by an unreleased version of core and cannot be upgraded: dump what you want to keep, drop the database, create it again",
    );
    expect(await pendingMigrations(sql, schema)).toEqual(namesOf(schema));
    expect(
      await sql`select relname from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r'`,
    ).toEqual([{ relname: "schema_migration" }]);
  });

  it("applies all definitions again when one has changed or a migration was applied, and not otherwise", async () => {
    const { sql } = (await emptyDatabase()).connect();
    const other = file("other", "create or replace view other as select answer from answer");
    const first = files([baseline], [view("1"), other]);
    expect(await migrate(sql, first)).toEqual({ applied: ["0000", "answer", "other"] });
    expect(await migrate(sql, first)).toEqual({ applied: [] });

    const changed = files([baseline], [view("2"), other]);
    expect(await pendingMigrations(sql, changed)).toEqual(["answer", "other"]);
    expect(await migrate(sql, changed)).toEqual({ applied: ["answer", "other"] });
    expect(await sql`select answer from other`).toEqual([{ answer: 2 }]);

    const altering = files([baseline, file("0001", "drop view other")], changed.definitions);
    expect(await migrate(sql, altering)).toEqual({ applied: ["0001", "answer", "other"] });
    expect(await sql`select answer from other`).toEqual([{ answer: 2 }]);
  });

  it("D7: an older core leaves the schema and the definitions of a newer one alone", async () => {
    const { sql } = (await emptyDatabase()).connect();
    await migrate(sql, files([baseline, file("0001", "create table b (x int)")], [view("2")]));
    const older = files([baseline], [view("1")]);
    expect(await pendingMigrations(sql, older)).toEqual([]);
    expect(await migrate(sql, older)).toEqual({ applied: [] });
    expect(await sql`select answer from answer`).toEqual([{ answer: 2 }]);
  });

  it("applies the definitions of this repository a second time without a change", async () => {
    const database = await createTestDatabase();
    databases.push(database);
    const { sql } = database.connect();
    const { definitions } = await readMigrations();
    const catalog = async () => [
      await sql`select relname, relkind, reloptions from pg_class where relnamespace = 'public'::regnamespace order by 1`,
      await sql`select tgname, pg_get_triggerdef(oid) from pg_trigger where not tgisinternal order by 1`,
      await sql`select proname, prosrc, proconfig from pg_proc where pronamespace = 'public'::regnamespace order by 1`,
      await sql`select pg_get_viewdef('fleet_facts'::regclass)`,
    ];
    const before = await catalog();
    for (const { text } of definitions) await sql.unsafe(text);
    expect(await catalog()).toEqual(before);
  });

  it("gives every test a migrated, empty database of its own", async () => {
    const one = await createTestDatabase();
    databases.push(one);
    expect(one.url).toContain(inject("database").prefix);
    expect(await one.connect().sql`select count(*)::int as rows from ingest_envelope`).toEqual([{ rows: 0 }]);
  });
});
