import { existsSync, statfsSync } from "node:fs";
import { freemem } from "node:os";
import type { TestProject } from "vitest/node";
import { openDatabaseSocket } from "#functions/node/database/database-servers.ts";
import { readMigrations } from "#functions/node/read-migrations.ts";
import { connectDatabase } from "#functions/store/database/database.ts";
import { migrate } from "#functions/store/database/migrate.ts";
import { bundlePrograms, programEntries, programPaths } from "#scripts/bundle/bundle-programs.ts";
import { startEmbeddedPostgres } from "#scripts/postgres/embedded-postgres.ts";

const bundled = ["svc-server", "svc-web", "svc-collector", "svc-admin"] as const;

/**
 * Bundles the programs that tests start as processes. Starts PostgreSQL for a test run, or uses the server at SVC_TEST_DATABASE_URL (15 or
 * later, with a role that may create databases). Migrates its template once, which `createTestDatabase` copies. Stops or drops everything
 * at the end of the run.
 */
export default async (project: TestProject) => {
  await bundlePrograms(bundled);
  // The workers inherit it.
  process.env.SVC_TEST_BUNDLES = JSON.stringify(
    Object.fromEntries(bundled.map((name) => [programEntries[name], programPaths[name]])),
  );
  return provideDatabase(project);
};

/**
 * Enough connections for the workers of a machine with many cores, or the requests of workerd with two each. No database of a test lives long
 * enough for autovacuum, which would visit one after the other. The password is random, so that one iteration protects it, and each request
 * of workerd signs in anew.
 */
const settings = {
  max_connections: "400",
  autovacuum: "off",
  max_wal_size: "256MB",
  scram_iterations: "1",
};

/** Reports whether a folder in memory exists and has room for the servers of a run, with their WAL. */
const hasMemoryFor = (folder: string) => {
  if (!existsSync(folder)) return false;
  const { bavail, bsize } = statfsSync(folder);
  return Math.min(bavail * bsize, freemem()) > 4 * 1024 ** 3;
};

/**
 * Provides the run's database; with `tcp`, over loopback TCP. Its files are in memory where there is enough, since a copy of the template
 * takes a fifth of the processor time there.
 */
export const provideDatabase = async (
  project: TestProject,
  { tcp = false }: { tcp?: boolean } = {},
) => {
  // For the files of fixtures, whatever the developer's is: programs reject what a group may write.
  process.umask(0o022);
  // The workers inherit it, for servers of their own.
  process.env.SVC_POSTGRES_FOLDER ??= hasMemoryFor("/dev/shm") ? "/dev/shm" : "";
  const given = process.env.SVC_TEST_DATABASE_URL;
  const embedded = given === undefined ? await startEmbeddedPostgres({ tcp, settings }) : undefined;
  const maintenanceUrl = given ?? (tcp ? embedded?.tcpUrl() : embedded?.url()) ?? "";
  const prefix = `svc_test_${crypto.getRandomValues(new Uint8Array(6)).toHex()}`;
  const template = `${prefix}_template`;

  // Longer timeouts than core's, for a busy machine.
  const options = {
    connectionsMax: 1,
    connectTimeoutSeconds: 60,
    deadlineMs: 60_000,
    openSocket: openDatabaseSocket,
  };
  const server = connectDatabase({ ...options, url: maintenanceUrl });
  await server.sql.unsafe(`create database ${template}`);
  const url = Object.assign(new URL(maintenanceUrl), { pathname: `/${template}` }).href;
  const fresh = connectDatabase({ ...options, url });
  await migrate(fresh.sql, await readMigrations());
  await fresh.close();
  project.provide("database", { maintenanceUrl, template, prefix });

  return async () => {
    if (embedded === undefined) {
      const left = await server.sql`
        select datname as name from pg_database where datname like ${`${prefix}%`}`;
      for (const { name } of left)
        await server.sql.unsafe(`drop database if exists ${name} with (force)`);
    }
    await server.close();
    await embedded?.stop("immediate");
  };
};
