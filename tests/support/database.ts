import { inject } from "vitest";
import type { ConnectedDatabase, DatabaseOptions } from "#functions/store/database/database.ts";
import { connectNodeDatabase } from "#scripts/postgres/connect-node-database.ts";
import { whenDone } from "./new-folder.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** Set by global-setup.ts: the server of this run, its migrated template, and a prefix unique to the run. */
    database: { maintenanceUrl: string; template: string; prefix: string };
  }
}

/** A database of its own for one test or one file: migrated, empty. */
export interface TestDatabase {
  url: string;
  /** Connects with TCP_NODELAY as core does; closed by `drop`. */
  connect(options?: Pick<DatabaseOptions, "tracer" | "plansByIndex">): ConnectedDatabase;
  /** Drops it and its connections. */
  drop(): Promise<void>;
}

/** Copies the migrated template, or another database that nobody is connected to, in some 20 ms. */
export const createTestDatabase = async (
  from?: Pick<TestDatabase, "url">,
): Promise<TestDatabase> => {
  const { maintenanceUrl, prefix, ...migrated } = inject("database");
  const template = from === undefined ? migrated.template : new URL(from.url).pathname.slice(1);
  const name = `${prefix}_${crypto.randomUUID().replaceAll("-", "")}`;
  await maintain(maintenanceUrl, `create database ${name} template ${template} strategy file_copy`);
  const url = Object.assign(new URL(maintenanceUrl), { pathname: `/${name}` }).href;
  const connections: ConnectedDatabase[] = [];
  return {
    url,
    connect(options) {
      const connection = connectForTest(url, 4, options);
      connections.push(connection);
      return connection;
    },
    async drop() {
      await Promise.all(connections.map((connection) => connection.close(1)));
      await maintain(maintenanceUrl, `drop database if exists ${name} with (force)`);
    },
  };
};

/** Creates a database that is dropped after the test, or after those of the file or the group. */
export const useTestDatabase = async (from?: Pick<TestDatabase, "url">): Promise<TestDatabase> => {
  const database = await createTestDatabase(from);
  whenDone(() => database.drop());
  return database;
};

/** Connects with longer timeouts than core's, for a busy machine. */
const connectForTest = (
  url: string,
  connectionsMax: number,
  options: Pick<DatabaseOptions, "tracer" | "plansByIndex"> = {},
): ConnectedDatabase =>
  connectNodeDatabase({
    ...options,
    url,
    connectionsMax,
    connectTimeoutSeconds: 60,
    deadlineMs: 60_000,
  });

/** One connection for each worker: opening one takes longer than dropping a database. It ends with the worker. */
let maintenance: ConnectedDatabase | undefined;

const maintain = async (url: string, statement: string): Promise<void> => {
  maintenance ??= connectForTest(url, 1);
  await maintenance.sql.unsafe(statement);
};
