import { join } from "node:path";
import type { Sql } from "postgres";
import { openDatabaseSocket } from "../../functions/node/database-socket.ts";
import { connectDatabase } from "../../functions/store/database.ts";
import { systemClock } from "../../kit/clock.ts";
import { systemEntropy } from "../../kit/entropy.ts";
import { bundlePrograms } from "../bundle/bundle-programs.ts";
import { createLabPki } from "../lab-ca/pki.ts";
import { startEmbeddedPostgres } from "../postgres/embedded-postgres.ts";
import { createCoreProcess } from "./core-process.ts";
import { createOperatorApi, type OperatorApi } from "./operator-api.ts";
import { seedPeople } from "./people.ts";
import { findPorts } from "./ports.ts";
import { createProcesses, type Processes } from "./processes.ts";

/** A real core on loopback, to be attacked or driven, and its database, to be asked what is true. */
export interface Target {
  /** `http://127.0.0.1:<port>`. */
  url: string;
  /** `host:port` of the mTLS listener. */
  ingestEndpoint: string;
  /** The authority of its server certificate. */
  serverCaFile: string;
  authTokenSecret: string;
  /** For programs beside it. */
  processes: Processes;
  operator: OperatorApi;
  sql: Sql;
}

/** Starts a durable PostgreSQL (fsync on) and a core process; what is started is put on `cleanup` at once. */
export const startTarget = async (
  { dir, stop, env = {} }: { dir: string; stop: AbortController; env?: Readonly<Record<string, string>> },
  cleanup: AsyncDisposableStack,
): Promise<Target> => {
  await bundlePrograms();
  const postgres = await startEmbeddedPostgres();
  cleanup.defer(() => postgres.stop("immediate"));
  const lab = await createLabPki({ dir: join(dir, "lab"), clock: systemClock });
  const processes = await createProcesses(join(dir, "logs"), (error) => stop.abort(error));
  cleanup.defer(() => processes.stopAll());
  const authTokenSecret = systemEntropy.bytes(32).toHex();
  const [httpPort, ingestPort] = (await findPorts(2, systemEntropy)) as [number, number];
  const databaseUrl = postgres.url();
  const core = await createCoreProcess(
    { dir, databaseUrl, lab, authTokenSecret, httpPort, ingestPort, env },
    { processes, clock: systemClock, signal: stop.signal },
  );
  core.start();
  await core.ready();
  const database = connectDatabase({ url: databaseUrl, connectionsMax: 2, openSocket: openDatabaseSocket });
  cleanup.defer(() => database.close());
  await seedPeople(database.db, systemClock.now());
  return {
    url: core.httpUrl,
    ingestEndpoint: core.ingestEndpoint,
    serverCaFile: lab.serverCaFile,
    authTokenSecret,
    processes,
    operator: createOperatorApi(core.httpUrl, authTokenSecret),
    sql: database.sql,
  };
};
