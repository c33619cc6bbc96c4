import { afterEach, describe, expect, inject, it } from "vitest";
import { createTestDatabase, type TestDatabase } from "../../tests/database.ts";
import { readMigrations } from "../node/read-migrations.ts";
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
