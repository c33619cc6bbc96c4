import { hash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { isDeepStrictEqual } from "node:util";
import type { SqlClient } from "#functions/store/database/pool/sql-client.ts";

/** What a database records of its schema: digest and time of each migration and definition, by name. */
export type SchemaRecords = Awaited<ReturnType<typeof readSchemaRecords>>;

/** Reads the records of the migrator, as `sha256 time`. */
export const readSchemaRecords = async (sql: SqlClient) => {
  const read = async (table: string) => {
    const rows = await sql<{ name: string; record: string }[]>`
      select name, sha256 || ' ' || applied_at as record from ${sql(table)} order by applied_at, name`;
    return Object.fromEntries(rows.map(({ name, record }) => [name, record]));
  };
  return {
    migrations: await read("schema_migration"),
    definitions: await read("schema_definition"),
  };
};

/** Returns the names that one state of the records has and an earlier one has not, or not the same. */
export const changedRecords = (before: SchemaRecords, after: SchemaRecords) => {
  const changed = (of: keyof SchemaRecords) =>
    Object.keys(after[of]).filter((name) => after[of][name] !== before[of][name]);
  return { migrations: changed("migrations"), definitions: changed("definitions") };
};

/**
 * Returns what is wrong with the records after an upgrade, by the files of the working tree: a record that was changed or lost, a migration
 * that is missing, and a definition that is not the present one or was not applied anew.
 */
export const recordFaults = async (
  before: SchemaRecords,
  after: SchemaRecords,
): Promise<string[]> => {
  const faults: string[] = [];
  for (const [name, record] of Object.entries(before.migrations))
    if (after.migrations[name] !== record) faults.push(`the record of ${name} was changed`);
  const migrations = await digestsIn("drizzle/migrations");
  const baseline = "0000_baseline";
  const isEarlier = digestOf(before.migrations[baseline]) !== migrations.get(baseline);
  for (const [name, sha256] of migrations) {
    const isWanted = name === `${baseline}_edits` ? isEarlier : !(name in before.migrations);
    const recorded = name in before.migrations ? undefined : digestOf(after.migrations[name]);
    if (recorded !== (isWanted ? sha256 : undefined))
      faults.push(
        `${name} ${isWanted ? "was not applied" : "was applied, and is not for this database"}`,
      );
  }
  const definitions = await digestsIn("drizzle/sql");
  const applied = Object.fromEntries(
    // That rows were recomputed is recorded among the definitions.
    Object.entries(after.definitions)
      .filter(([name]) => name !== "recomputed")
      .map(([name, record]) => [name, digestOf(record)]),
  );
  if (!isDeepStrictEqual(new Map(Object.entries(applied).sort()), new Map([...definitions].sort())))
    faults.push("the definitions are not those of drizzle/sql");
  for (const name of definitions.keys())
    if (after.definitions[name] === before.definitions[name])
      faults.push(`drizzle/sql/${name}.sql was not applied again`);
  return faults;
};

const digestOf = (record: string | undefined) => record?.split(" ")[0];

const digestsIn = async (folder: string): Promise<Map<string, string>> => {
  const names = (await readdir(folder)).filter((name) => name.endsWith(".sql")).sort();
  const digests = names.map(async (name) => {
    const text = await readFile(`${folder}/${name}`, "utf8");
    return [name.slice(0, -4), hash("sha256", text)] as const;
  });
  return new Map(await Promise.all(digests));
};
