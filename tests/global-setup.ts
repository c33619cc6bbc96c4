import type { TestProject } from "vitest/node";
import { openDatabaseSocket } from "../functions/node/database-socket.ts";
import { readMigrations } from "../functions/node/read-migrations.ts";
import { connectDatabase } from "../functions/store/database.ts";
import { migrate } from "../functions/store/migrate.ts";
import { bundlePrograms, programEntries, programPaths } from "../scripts/bundle/bundle-programs.ts";
import { startEmbeddedPostgres } from "../scripts/postgres/embedded-postgres.ts";

const bundled = ["svc-server", "svc-web", "svc-collector", "svc-admin"] as const;

/**
 * Bundles the programs that tests start as processes. Starts PostgreSQL for a test run, or uses the server at SVC_TEST_DATABASE_URL (15 or later, with a role that may create databases).
 * Migrates its template once, which `createTestDatabase` copies. Stops or drops everything at the end of the run.
 */
export default async (project: TestProject): Promise<() => Promise<void>> => {
  await bundlePrograms(undefined, bundled);
  // The workers inherit it.
  process.env.SVC_TEST_BUNDLES = JSON.stringify(
    Object.fromEntries(bundled.map((name) => [programEntries[name], programPaths[name]])),
  );
  return provideDatabase(project);
};

/**
 * Provides the run's database; with `tcp`, over loopback TCP. Allows as many connections as the workers of a machine with many cores, or the requests of
 * workerd with two each, have open at a time.
 */
export const provideDatabase = async (
  project: TestProject,
  { tcp = false }: { tcp?: boolean } = {},
): Promise<() => Promise<void>> => {
  // For the files of fixtures, whatever the developer's is: programs reject what a group may write.
  process.umask(0o022);
  const given = process.env.SVC_TEST_DATABASE_URL;
  const embedded =
    given === undefined ? await startEmbeddedPostgres({ tcp, settings: { max_connections: "400" } }) : undefined;
  const maintenanceUrl = given ?? (tcp ? embedded?.tcpUrl() : embedded?.url()) ?? "";
  const prefix = `svc_test_${crypto.getRandomValues(new Uint8Array(6)).toHex()}`;
  const template = `${prefix}_template`;

  const server = connectDatabase({ url: maintenanceUrl, connectionsMax: 1, openSocket: openDatabaseSocket });
  await server.sql.unsafe(`create database ${template}`);
  const url = Object.assign(new URL(maintenanceUrl), { pathname: `/${template}` }).href;
  const fresh = connectDatabase({ url, connectionsMax: 1, openSocket: openDatabaseSocket });
  await migrate(fresh.sql, await readMigrations());
  await fresh.close();
  project.provide("database", { maintenanceUrl, template, prefix });

  return async () => {
    if (embedded === undefined) {
      const left = await server.sql<{ name: string }[]>`
        select datname as name from pg_database where datname like ${`${prefix}%`}`;
      for (const { name } of left) await server.sql.unsafe(`drop database if exists ${name} with (force)`);
    }
    await server.close();
    await embedded?.stop("immediate");
  };
};
