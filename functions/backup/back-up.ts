import { writeFile } from "node:fs/promises";
import { generateIdentity, identityToRecipient } from "age-encryption";
import packageJson from "../../package.json" with { type: "json" };
import { type CoreConfig, coreFileForms, coreVariables } from "../config/core-config.ts";
import { BackupRefused, refuseExisting, writeArchive } from "../node/backup/archive.ts";
import { type BackupManifest, backupEntries, namesFile } from "../node/backup/backup-file.ts";
import { readTrustedFile } from "../node/read-key-file.ts";
import { withConfigError } from "../node/with-config-error.ts";
import {
  beginSnapshot,
  isUnused,
  listTables,
  readRows,
  readSchemaRecords,
  readSequences,
} from "../store/backup/tables.ts";
import { auditBackup, withClient } from "./database.ts";

/** Makes a key of age; returns its recipient. Throws `BackupRefused` if the file exists or cannot be created. */
export const makeKey = async (file: string) => {
  const identity = await generateIdentity();
  const recipient = await identityToRecipient(identity);
  await refuseExisting(file, () =>
    writeFile(file, `# public key: ${recipient}\n${identity}\n`, { flag: "wx", mode: 0o600 }),
  );
  return { recipient, identity_file: file };
};

/** Writes a backup, audited; returns what it has. Throws `BackupRefused`. */
export const backUp = async (
  config: CoreConfig,
  { to, recipients, withTelemetry }: { to: string; recipients: readonly string[]; withTelemetry: boolean },
) => {
  const { settings, secrets } = await readSettings(process.env);
  const manifest = await withClient(config, async (client) => {
    if (await isUnused(client)) throw new BackupRefused("the database is empty: no core has used it");
    const at = await beginSnapshot(client);
    const content: BackupManifest = {
      format: "svc-backup/1",
      at: at.toISOString(),
      version: packageJson.version,
      tenant_id: config.tenantId,
      with_telemetry: withTelemetry,
      migrations: await readSchemaRecords(client),
      sequences: await readSequences(client),
      tables: await listTables(client, { withTelemetry }),
      settings,
    };
    const entries = backupEntries({ manifest: content, secrets, readRows: (table) => readRows(client, table) });
    await writeArchive(to, recipients, entries);
    return content;
  });
  await auditBackup(config, "backup.create", to, { at: manifest.at, with_telemetry: withTelemetry, recipients });
  return {
    file: to,
    at: manifest.at,
    with_telemetry: withTelemetry,
    tables: manifest.tables.length,
    secrets: secrets.size,
  };
};

/**
 * Returns core's settings, and what of them is secret: the files that they name, and the values of those that may be in a file. Throws
 * `ConfigError`.
 */
const readSettings = async (env: NodeJS.ProcessEnv) => {
  const [settings, secrets]: [Record<string, string>, Map<string, Uint8Array>] = [{}, new Map()];
  for (const name of [...Object.keys(coreVariables), ...coreFileForms.map((form) => `${form}_FILE`)]) {
    const value = env[name];
    if (value === undefined || value === "") continue;
    if (namesFile(name)) secrets.set(name, await withConfigError(name, () => readTrustedFile(value)));
    if (coreFileForms.includes(name)) secrets.set(name, new TextEncoder().encode(value));
    else settings[name] = value;
  }
  return { settings, secrets };
};
