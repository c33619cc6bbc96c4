import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import type { CoreConfig } from "../config/core-config.ts";
import { BackupRefused, readArchive, refuseExisting } from "../node/backup/archive.ts";
import { type BackupManifest, namesFile, readBackup } from "../node/backup/backup-file.ts";
import { createCoreServers } from "../node/database/database-servers.ts";
import { readKeyFile } from "../node/read-key-file.ts";
import { readMigrations } from "../node/read-migrations.ts";
import {
  beginRestore,
  commitRestore,
  countSince,
  isUnused,
  type SinceBackup,
  tableDefinitions,
  writeRows,
} from "../store/backup/tables.ts";
import { connectDatabase } from "../store/database/database.ts";
import { isSchemaNote, migrate, type SchemaFiles } from "../store/database/migrate.ts";
import { auditBackup, withClient } from "./database.ts";

/** Reads identities as age-keygen writes them: a line each, and comments. Throws `BackupRefused` if others may read the file. */
export const readIdentities = (file: string): string[] => {
  try {
    const lines = readKeyFile(file).toString("utf8").split(/\r?\n/);
    return lines.filter((line) => line !== "" && !line.startsWith("#"));
  } catch (cause) {
    throw new BackupRefused(`the identity file cannot be read: ${(cause as Error).message}`);
  }
};

/** Restores a backup into the empty database of the settings, audited; returns what it has. Throws `BackupRefused`, with nothing restored. */
export const restore = async (config: CoreConfig, file: string, identities: readonly string[]) => {
  const files = await readMigrations();
  const { sql, close } = connectDatabase({ ...createCoreServers(config).sessions, connectionsMax: 1, deadlineMs: 0 });
  try {
    const manifest = await withClient(config, async (client) => {
      if (!(await isUnused(client)))
        throw new BackupRefused("the database is not empty: restore into a new one, and set SVC_DATABASE_URL to it");
      const read = await readBackup(readArchive(file, identities), {
        onManifest: async (manifest) => {
          checkTenant(config, manifest);
          await migrate(sql, schemaOf(manifest, files));
          await beginRestore(client, manifest.tables);
        },
        onTable: (table, rows) => writeRows(client, table, (copy) => pipeline(rows, copy)),
      });
      await commitRestore(client, read.sequences);
      return read;
    });
    const { applied } = await migrate(sql, files);
    await auditBackup(config, "backup.restore", file, { at: manifest.at, version: manifest.version });
    return {
      restored: file,
      at: manifest.at,
      version: manifest.version,
      with_telemetry: manifest.with_telemetry,
      applied,
    };
  } finally {
    await close();
  }
};

const checkTenant = ({ tenantId }: CoreConfig, { tenant_id }: BackupManifest): void => {
  if (tenantId !== tenant_id)
    throw new BackupRefused(`the backup is of the tenant ${tenant_id}, and SVC_TENANT_ID is ${tenantId}`);
};

/** Returns the schema of the database of a backup, without triggers: its rows come before them. Refuses that of a newer core. */
const schemaOf = ({ migrations, version }: BackupManifest, files: SchemaFiles): SchemaFiles => {
  const known = new Map(files.migrations.map(({ name, sha256 }) => [name, sha256]));
  const baseline = files.migrations[0]?.name;
  for (const { name, sha256 } of migrations) {
    if (name === files.baselineEdits.name || isSchemaNote(name)) continue;
    if (known.get(name) !== sha256 && name !== baseline)
      throw new BackupRefused(`the backup is of version ${version}, which has ${name}: restore it with that version`);
  }
  const had = new Set(migrations.map(({ name }) => name));
  return {
    ...files,
    migrations: files.migrations.filter(({ name }) => had.has(name)),
    definitions: files.definitions.filter(({ name }) => tableDefinitions.includes(name)),
    recompute: null,
    lockedFirst: [],
  };
};

/** Reads all of a backup, and returns what restoring it in place of the present database would undo; null where that is empty. */
export const checkBackup = async (config: CoreConfig, file: string, identities: readonly string[]) => {
  const rows: Record<string, number> = {};
  const files = await readMigrations();
  const { at, version, with_telemetry, tables } = await readBackup(readArchive(file, identities), {
    onManifest: async (manifest) => {
      checkTenant(config, manifest);
      schemaOf(manifest, files);
    },
    onTable: async ({ name }, parts) => {
      let lines = 0;
      // A line is a row: COPY writes line breaks of values as \n.
      for await (const part of parts) for (const byte of part) if (byte === 0x0a) lines++;
      rows[name] = lines;
      return lines;
    },
  });
  const since = await withClient(
    config,
    async (client): Promise<SinceBackup | null> =>
      (await isUnused(client)) ? null : countSince(client, at, with_telemetry),
  );
  return { file, at, version, with_telemetry, tables: tables.length, rows, undone: since };
};

/**
 * Writes the files and settings of a backup into a new directory, of mode 0700: `core.env` names the files. A value that no line of an
 * env file can hold is a file too.
 */
export const writeSettings = async (file: string, identities: readonly string[], to: string) => {
  await refuseExisting(to, () => mkdir(to, { mode: 0o700 }));
  const values = new Map<string, string>();
  const files = new Map<string, Uint8Array>();
  await readBackup(readArchive(file, identities), {
    onManifest: async ({ settings }) => {
      for (const [name, value] of Object.entries(settings)) values.set(name, value);
    },
    onSecret: async (name, data) => {
      if (namesFile(name)) files.set(name, data);
      else values.set(name, new TextDecoder().decode(data));
    },
    onTable: async () => undefined,
  });
  for (const [name, value] of values) {
    if (!/[\r\n]/.test(value) && !(value.includes("'") && /["\\]/.test(value))) continue;
    values.delete(name);
    // Where both are set, the file wins.
    if (!files.has(`${name}_FILE`)) files.set(`${name}_FILE`, new TextEncoder().encode(value));
  }
  for (const [name, data] of files) {
    const path = join(to, nameInDirectory(name));
    await writeFile(path, data, { flag: "wx", mode: 0o600 });
    values.set(name, path);
  }
  const lines = [...values].map(([name, value]) => `${settingLine(name, value)}\n`).sort();
  await writeFile(join(to, "core.env"), lines.join(""), { flag: "wx", mode: 0o600 });
  return { settings: join(to, "core.env"), files: [...files.keys()].map((name) => join(to, nameInDirectory(name))) };
};

const nameInDirectory = (setting: string): string =>
  setting
    .toLowerCase()
    .replaceAll("_", "-")
    .replace(/^svc-|-(file|path)$/g, "");

/** Returns a line of an env file, as Node and systemd read it: unquoted, Node would end a value at a `#`. */
const settingLine = (name: string, value: string): string => {
  if (/^[\w./:@?&=,+%-]*$/.test(value)) return `${name}=${value}`;
  return value.includes("'") ? `${name}="${value}"` : `${name}='${value}'`;
};
