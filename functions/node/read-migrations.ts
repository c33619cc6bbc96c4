import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import packageJson from "#package.json" with { type: "json" };
import type { SchemaFiles, SqlFile } from "../store/database/migrate.ts";

/** The digests of all migrations that were ever on main (`drizzle/migrations/history.json`); each member only grows. */
export interface SchemaHistory {
  /** Texts of 0000_baseline before it was frozen, by digest: the commit that wrote them. */
  earlier_baselines: Readonly<Record<string, string>>;
  /** Digests of the migrations, by name. */
  migrations: Readonly<Record<string, string>>;
  /** Digests of `drizzle/sql/` as a whole; how many there are is the revision of the definitions. */
  definitions: readonly string[];
}

const drizzleFolder = new URL("../../drizzle/", import.meta.url);

/**
 * Reads the migrations in the order of drizzle-kit's journal, the upgrades from earlier texts of the first one, and the definitions of
 * `drizzle/sql/` in the order of their names.
 */
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
    // Cores of 0.2.0 copy rows, into the second.
    lockedFirst: ["ingest_block", "ingest_envelope"],
  };
};

const readJson = async <Content>(file: URL): Promise<Content> =>
  JSON.parse(await readFile(file, "utf8"));

const readSqlFile = async (folder: URL, name: string): Promise<SqlFile> => {
  const text = await readFile(new URL(`${name}.sql`, folder), "utf8");
  return { name, sha256: createHash("sha256").update(text).digest("hex"), text };
};
