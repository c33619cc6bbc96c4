import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { readMigrations, type SchemaHistory } from "#functions/node/read-migrations.ts";
import type { SchemaFiles, SqlFile } from "#functions/store/database/migrate.ts";

/** The committed record of all migrations and definitions: what clones without the history of main are compared with. */
export const historyFile = "drizzle/migrations/history.json";

/** Reads the schema of a repository and its record. */
export const readSchema = async (
  repository = ".",
): Promise<{ history: SchemaHistory; files: SchemaFiles }> => ({
  history: JSON.parse(await readFile(join(repository, historyFile), "utf8")) as SchemaHistory,
  files: await readMigrations(pathToFileURL(`${resolve(repository, "drizzle")}/`)),
});

/** Returns the files whose digests the record has. */
export const recordedFiles = ({ migrations, baselineEdits }: SchemaFiles): SqlFile[] => [
  ...migrations,
  baselineEdits,
];

/** Renders history.json with what it lacks of the present migrations and definitions. Changes no entry. */
export const renderHistory = async (repository = "."): Promise<string> => {
  const { history, files } = await readSchema(repository);
  const present = recordedFiles(files).map(({ name, sha256 }) => [name, sha256] as const);
  const definitions = createHash("sha256")
    .update(files.definitions.map(({ name, sha256 }) => `${name} ${sha256}\n`).join(""))
    .digest("hex");
  const next: SchemaHistory = {
    ...history,
    migrations: { ...Object.fromEntries(present), ...history.migrations },
    definitions:
      history.definitions.at(-1) === definitions
        ? history.definitions
        : [...history.definitions, definitions],
  };
  return `${JSON.stringify(next, null, 2)}\n`;
};
