import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import type { SchemaFiles, SqlFile } from "../store/migrate.ts";

const drizzleFolder = new URL("../../drizzle/", import.meta.url);

/** Reads the migrations in the order of drizzle-kit's journal, and the definitions of `drizzle/sql/` in the order of their names. */
export const readMigrations = async (folder: URL = drizzleFolder): Promise<SchemaFiles> => {
  const journal = JSON.parse(await readFile(new URL("migrations/meta/_journal.json", folder), "utf8")) as {
    entries: { tag: string }[];
  };
  const definitions = (await readdir(new URL("sql/", folder))).filter((name) => name.endsWith(".sql")).sort();
  return {
    migrations: await Promise.all(journal.entries.map(({ tag }) => readSqlFile(new URL("migrations/", folder), tag))),
    definitions: await Promise.all(definitions.map((name) => readSqlFile(new URL("sql/", folder), name.slice(0, -4)))),
  };
};

const readSqlFile = async (folder: URL, name: string): Promise<SqlFile> => {
  const text = await readFile(new URL(`${name}.sql`, folder), "utf8");
  return { name, sha256: createHash("sha256").update(text).digest("hex"), text };
};
