import { join } from "node:path";
import type { SqlClient } from "#functions/store/database/pool/sql-client.ts";
import { bundlePrograms } from "../bundle/bundle-programs.ts";
import { findPorts } from "../ports.ts";
import { connectNodeDatabase } from "../postgres/connect-node-database.ts";
import { startEmbeddedPostgres } from "../postgres/embedded-postgres.ts";
import { awaitPeople } from "./await-people.ts";
import { createLabPki, type LabPki } from "./ca/pki.ts";
import type { LabContext } from "./context.ts";
import { type CoreProcess, createCoreProcess } from "./core-process.ts";
import { startDirectoryApi } from "./directory-api.ts";
import { createOperatorApi, type OperatorApi, type UserIds } from "./operator-api.ts";
import { seedPeople } from "./people.ts";
import { createProcesses, type Processes } from "./processes.ts";

/** A real core on loopback with a durable PostgreSQL of its own. */
export interface LabCore extends CoreProcess {
  pki: LabPki;
  authTokenSecret: string;
  /** The ids that the people have in this core. */
  userIds: UserIds;
  api: OperatorApi;
  sql: SqlClient;
  databaseUrl: string;
  /** For programs beside core. */
  processes: Processes;
}

/**
 * Starts PostgreSQL (fsync on) and core. With `directory`, core syncs people from a directory API, else they are seeded. Registers each
 * started part with `cleanup` at once, so that a later failure stops it.
 */
export const startLabCore = async (
  { env = {}, directory = false }: { env?: Readonly<Record<string, string>>; directory?: boolean },
  context: LabContext,
  cleanup: AsyncDisposableStack,
): Promise<LabCore> => {
  const { dir, clock, entropy, signal, abort, progress } = context;
  signal.throwIfAborted();
  progress("bundling the programs; starting PostgreSQL with fsync and a lab CA");
  const bundled = bundlePrograms(undefined, signal);
  // Awaited below, where a failure counts.
  bundled.catch(() => undefined);
  const postgres = await startEmbeddedPostgres();
  cleanup.defer(() => postgres.stop("immediate"));
  await bundled;
  signal.throwIfAborted();
  const pki = await createLabPki({ dir: join(dir, "lab") });
  const processes = await createProcesses(join(dir, "logs"), abort);
  cleanup.defer(() => processes.stopAll());
  const authTokenSecret = entropy.bytes(32).toHex();
  const [httpPort = 0, ingestPort = 0] = await findPorts(2, entropy);
  const databaseUrl = postgres.url();
  const directoryEnv = directory ? await startDirectory(dir, cleanup) : {};
  const core = await createCoreProcess(
    {
      dir,
      databaseUrl,
      pki,
      authTokenSecret,
      httpPort,
      ingestPort,
      env: { ...directoryEnv, ...env },
    },
    { processes, clock, signal },
  );
  progress(
    `starting core: it migrates the database and listens${directory ? ", then syncs people" : ""}`,
  );
  core.start();
  await core.ready();
  const database = connectNodeDatabase({
    url: databaseUrl,
    connectionsMax: 2,
  });
  cleanup.defer(() => database.close());
  if (!directory) await seedPeople(database.db, clock.now());
  const { sql } = database;
  const userIds = await awaitPeople(sql, context);
  const api = createOperatorApi(core.httpUrl, authTokenSecret, userIds);
  return { ...core, pki, authTokenSecret, userIds, api, sql, databaseUrl, processes };
};

/** Starts a directory API; returns the variables with which core syncs it. */
export const startDirectory = async (
  dir: string,
  cleanup: AsyncDisposableStack,
): Promise<Record<string, string>> => {
  const directory = await startDirectoryApi();
  cleanup.defer(() => directory.close());
  return {
    SVC_DIRECTORY_SERVICE_ACCOUNT_KEY_FILE: await directory.writeKeyFile(dir),
    SVC_DIRECTORY_API_URL: directory.url,
  };
};
