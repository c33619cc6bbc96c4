import { systemClock } from "#kit/clock.ts";
import { systemEntropy } from "#kit/entropy.ts";
import type { Log } from "#kit/log.ts";
import type { CoreConfig } from "./config/core-config.ts";
import type { RestoreCore } from "./domain/directory/restored.ts";
import { createCoreServers, type DatabaseConfig } from "./node/database/database-servers.ts";
import { prepareDatabase, withDatabaseFaults } from "./node/database/prepare-database.ts";
import {
  type ConnectedDatabase,
  connectDatabase,
  type PoolSettings,
} from "./store/database/database.ts";
import type { SqlClient } from "./store/database/pool/sql-client.ts";

/** Returns the operating system's user, whom the audit log names as the actor. */
export const operatorName = (): string => process.env.USER ?? "unknown user";

const toStderr = (_fields: object, message: string): void =>
  void process.stderr.write(`${message}\n`);
/** Standard output has the result alone. */
const stderrLog: Log = { debug: () => undefined, info: toStderr, warn: toStderr, error: toStderr };

/** Core as a command uses it. */
export type MigratedCore = RestoreCore & { sql: SqlClient };

/** Migrates the database and runs a command on it. */
export const withMigratedCore = async (
  config: CoreConfig,
  run: (core: MigratedCore) => Promise<number>,
): Promise<number> => {
  await prepareDatabase(createCoreServers(config, stderrLog), {
    tenantId: config.tenantId,
    clock: systemClock,
    log: stderrLog,
  });
  return withDatabase(config, ({ db, sql }) =>
    run({ config, db, sql, clock: systemClock, entropy: systemEntropy, log: stderrLog }),
  );
};

/** Runs a command on the database, as it is: without a deadline, as one transaction may read the whole log, or change every person. */
export const withDatabase = async (
  config: DatabaseConfig,
  run: (database: ConnectedDatabase) => Promise<number>,
  options: PoolSettings = {},
): Promise<number> => {
  const { sessions } = createCoreServers(config, stderrLog);
  const database = connectDatabase({ ...sessions, connectionsMax: 2, deadlineMs: 0, ...options });
  try {
    return await withDatabaseFaults(sessions.variable, () => run(database));
  } finally {
    await database.close();
  }
};
