import { chmod, chown, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import pg from "pg";
import type { EmbeddedPostgres } from "#scripts/postgres/embedded-postgres.ts";
import { run } from "#scripts/postgres/embedded-postgres-files.ts";

/** Files of a data directory that belong to the running server alone. */
const ownFiles = ["postmaster.pid", "postmaster.opts", "server.log"];

/**
 * Copies the data directory of a running server to `to`, as pg_basebackup does with its WAL (PostgreSQL's manual, "Making a Base Backup
 * Using the Low Level API"). A server started on the copy recovers to the end of the backup or later. `files` are written into it.
 */
export const takeBaseBackup = async (
  server: Pick<EmbeddedPostgres, "url">,
  to: string,
  files: Readonly<Record<string, string>> = {},
) => {
  const client = new pg.Client({ connectionString: server.url() });
  await client.connect();
  try {
    const { rows: settings } = await client.query("show data_directory");
    const from = settings[0]?.data_directory ?? "";
    const { uid, gid, mode } = await stat(from);
    await client.query("select pg_backup_start('base backup', true)");
    // Fails when a file ends in the middle, which a base backup may ignore.
    await run("cp", ["-Rp", from, to]).catch(() => undefined);
    const { rows } = await client.query("select labelfile from pg_backup_stop(false)");
    // Again, because a restore needs the WAL through the end of the backup.
    await rm(join(to, "pg_wal"), { recursive: true });
    await run("cp", ["-Rp", join(from, "pg_wal"), to]).catch(() => undefined);
    for (const name of ownFiles) await rm(join(to, name), { force: true });
    for (const [name, text] of Object.entries({
      backup_label: rows[0]?.labelfile ?? "",
      ...files,
    })) {
      await writeFile(join(to, name), text);
      await chown(join(to, name), uid, gid);
    }
    await chmod(to, mode & 0o777);
  } finally {
    await client.end();
  }
};

/** Replaces the data directory of a stopped server by a backup, which may be on another file system. */
export const restoreBaseBackup = async (backup: string, dataDir: string) => {
  await rm(dataDir, { recursive: true });
  await run("mv", [backup, dataDir]);
};
