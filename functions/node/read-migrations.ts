import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import packageJson from "#package.json" with { type: "json" };
import type { SchemaFiles, SqlFile } from "../store/database/migrate.ts";

/** The digests of all migrations that were ever on main (`drizzle/migrations/history.json`); `verify` rejects a change that removes one. */
export interface SchemaHistory {
  /** The commits that wrote earlier texts of 0000_baseline, by the digest of the text. */
  earlier_baselines: Readonly<Record<string, string>>;
  /** Digests of the migrations, by name. */
  migrations: Readonly<Record<string, string>>;
  /** Digests of `drizzle/sql/` as a whole; how many there are is the revision of the definitions. */
  definitions: readonly string[];
}

const drizzleFolder = new URL("../../drizzle/", import.meta.url);

/** Reads the schema from `drizzle/`: migrations in the order of drizzle-kit's journal, definitions in that of their names. */
export const readMigrations = async (folder: URL = drizzleFolder): Promise<SchemaFiles> => {
  const migrations = new URL("migrations/", folder);
  const journal = await readJson<{ entries: { tag: string }[] }>(
    new URL("meta/_journal.json", migrations),
  );
  const history = await readJson<SchemaHistory>(new URL("history.json", migrations));
  const definitions = (await readdir(new URL("sql/", folder)))
    .filter((name) => name.endsWith(".sql"))
    .sort();
  return {
    migrations: await Promise.all(journal.entries.map(({ tag }) => readSqlFile(migrations, tag))),
    baselineEdits: {
      ...(await readSqlFile(migrations, "0000_baseline_edits")),
      from: Object.keys(history.earlier_baselines),
    },
    definitions: await Promise.all(
      definitions.map((name) => readSqlFile(new URL("sql/", folder), name.slice(0, -4))),
    ),
    definitionsRevision: history.definitions.length,
    version: packageJson.version,
    recompute: "fleet_host_recompute",
    // Cores from 0.3.0 on lock the first one first. Those of 0.2.0 copy rows into the second.
    lockedFirst: ["ingest_block", "ingest_envelope"],
  };
};

const readJson = async <Content>(file: URL): Promise<Content> =>
  JSON.parse(await readFile(file, "utf8"));

const readSqlFile = async (folder: URL, name: string): Promise<SqlFile> => {
  const text = await readFile(new URL(`${name}.sql`, folder), "utf8");
  return { name, sha256: createHash("sha256").update(text).digest("hex"), text };
};
