import { afterEach, describe, expect, inject, it } from "vitest";
import { createTestDatabase, type TestDatabase } from "../../tests/database.ts";
import { openDatabaseSocket } from "../node/database-socket.ts";
import { readMigrations } from "../node/read-migrations.ts";
import { connectDatabase } from "./database.ts";
import { type Migration, migrate, pendingMigrations } from "./migrate.ts";

const databases: TestDatabase[] = [];
afterEach(async () => {
  for (const database of databases.splice(0)) await database.drop();
});

/** A database without any table of ours. */
const emptyDatabase = async (): Promise<TestDatabase> => {
  const database = await createTestDatabase();
  databases.push(database);
  const { sql } = database.connect();
  await sql`drop schema public cascade`;
  await sql`create schema public`;
  return database;
};

const step = (name: string, ...statements: string[]): Migration => ({ name, sha256: name, statements });

describe("migrate", () => {
  it("D4: two migrators at once apply each migration once", async () => {
    const database = await emptyDatabase();
    const migrations = await readMigrations();
    const reports = await Promise.all(Array.from({ length: 4 }, () => migrate(database.connect().sql, migrations)));
    expect(reports.flatMap(({ applied }) => applied).sort()).toEqual(migrations.map(({ name }) => name).sort());
    expect(await pendingMigrations(database.connect().sql, migrations)).toEqual([]);
  });

  it("D4: a migrator killed in the middle leaves whole migrations, and the next one goes on", async () => {
    const database = await emptyDatabase();
    const { sql } = database.connect();
    const first = step("0000", "create table a (x int)");
    const second = step("0001", "create table b (x int)", "select pg_sleep(30)", "create table c (x int)");
    const victim = connectDatabase({ url: database.url, connectionsMax: 1, openSocket: openDatabaseSocket });
    const killed = migrate(victim.sql, [first, second]).then(
      () => "done",
      (err: { code: string }) => err.code,
    );
    await expect
      .poll(async () => {
        const ended = await sql`select pg_terminate_backend(pid) from pg_stat_activity
          where datname = current_database() and query like 'select pg_sleep%'`;
        return ended.length;
      })
      .toBe(1);
    expect(await killed).toBe("CONNECTION_CLOSED");
    await victim.close(0);
    expect(await pendingMigrations(sql, [first, second])).toEqual(["0001"]);
    const resumed = step("0001", "create table b (x int)", "create table c (x int)");
    expect(await migrate(sql, [first, resumed])).toEqual({ applied: ["0001"] });
  });

  it("refuses a migration that was edited after it was applied, and leaves a newer database alone", async () => {
    const { sql } = (await emptyDatabase()).connect();
    const old = [step("0000", "create table a (x int)")];
    await migrate(sql, [...old, step("0001", "create table b (x int)")]);
    expect(await migrate(sql, old)).toEqual({ applied: [] });
    await expect(migrate(sql, [{ ...step("0000"), sha256: "other" }])).rejects.toThrow("0000 was edited");
  });

  it("gives every test a migrated, empty database of its own", async () => {
    const one = await createTestDatabase();
    databases.push(one);
    expect(one.url).toContain(inject("database").prefix);
    expect(await one.connect().sql`select count(*)::int as rows from ingest_envelope`).toEqual([{ rows: 0 }]);
  });
});
