import { createHash } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import type { Sql } from "postgres";
import history from "../../../drizzle/migrations/history.json" with { type: "json" };
import { openDatabaseSocket } from "../../../functions/node/database-socket.ts";
import { readMigrations, type SchemaHistory } from "../../../functions/node/read-migrations.ts";
import { connectDatabase } from "../../../functions/store/database.ts";
import { migrate } from "../../../functions/store/migrate.ts";
import { startEmbeddedPostgres } from "../../../scripts/postgres/embedded-postgres.ts";
import { readCatalog } from "../../schema-catalog.ts";
import { git } from "./previous.ts";

/**
 * Makes a database as each commit with another text of the baseline made it, migrates it, and compares it with a new one. Returns how many
 * are equal, and the faults.
 */
export const carryEarlierBaselines = async (): Promise<{ equal: number; faults: string[] }> => {
  const server = await startEmbeddedPostgres();
  const faults: string[] = [];
  let equal = 0;
  const inDatabase = async <Result>(name: string, run: (sql: Sql) => Promise<Result>): Promise<Result> => {
    const { sql, close } = connectDatabase({
      url: server.url(name),
      openSocket: openDatabaseSocket,
      connectionsMax: 1,
    });
    try {
      return await run(sql);
    } finally {
      await close(1);
    }
  };
  const create = (name: string) => inDatabase("postgres", (sql) => sql.unsafe(`create database ${name}`));
  try {
    const schema = await readMigrations();
    await create("fresh");
    const expected = await inDatabase("fresh", async (sql) => {
      await migrate(sql, schema);
      return readCatalog(sql);
    });
    const earlier: SchemaHistory["earlier_baselines"] = history.earlier_baselines;
    for (const [digest, commit] of Object.entries(earlier)) {
      const name = `of_${commit.slice(0, 12)}`;
      await create(name);
      await inDatabase(name, async (sql) => {
        await applyAsOf(sql, commit, digest);
        await migrate(sql, schema);
        const catalog = await readCatalog(sql);
        const differing = Object.keys(expected).filter(
          (part) => !isDeepStrictEqual(plain(catalog[part]), plain(expected[part])),
        );
        if (differing.length === 0) equal++;
        else faults.push(`${name}: ${differing.join(", ")} not as in a new database`);
      }).catch((error: Error) => faults.push(`${name}: ${error.message}`));
    }
  } finally {
    await server.stop("immediate");
  }
  return { equal, faults };
};

/** Applies the baseline and the definitions of a commit, and records them as its migrator did. */
const applyAsOf = async (sql: Sql, commit: string, digest: string): Promise<void> => {
  await sql`set client_min_messages = warning`;
  for (const table of ["schema_migration", "schema_definition"])
    await sql`create table ${sql(table)} (
      name text primary key, sha256 text not null, applied_at timestamptz not null default now())`;
  const baseline = await git("show", `${commit}:drizzle/migrations/0000_baseline.sql`);
  if (sha256Of(baseline) !== digest) throw new Error("history.json names another text of the baseline");
  await sql.unsafe(baseline);
  await sql`insert into schema_migration ${sql({ name: "0000_baseline", sha256: digest })}`;
  const files = (await git("ls-tree", "--name-only", commit, "drizzle/sql/")).trim().split("\n");
  for (const path of files) {
    const text = await git("show", `${commit}:${path}`);
    await sql.unsafe(text);
    const name = path.replace(/^drizzle\/sql\/(.*)\.sql$/, "$1");
    await sql`insert into schema_definition ${sql({ name, sha256: sha256Of(text) })}`;
  }
};

const sha256Of = (text: string) => createHash("sha256").update(text).digest("hex");

/** Rows of the driver carry the statement. */
const plain = (rows: readonly unknown[] | undefined) => JSON.stringify(rows);
