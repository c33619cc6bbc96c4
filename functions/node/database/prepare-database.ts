import type { Clock } from "../../../kit/clock.ts";
import { errorCode } from "../../../kit/describe-error.ts";
import { ConfigError } from "../../../kit/env.ts";
import type { Log } from "../../../kit/log.ts";
import { claimDeployment, connectDatabase } from "../../store/database/database.ts";
import { migrate } from "../../store/database/migrate.ts";
import { describeBlockers, MigrationBlocked } from "../../store/database/migration-blockers.ts";
import { databaseProblem } from "../../store/database/problem.ts";
import { readMigrations } from "../read-migrations.ts";
import { StartFault } from "../run-configured.ts";
import { checkPoolers, checkSettings } from "./check-poolers.ts";
import type { CoreServers, DatabaseVariable } from "./database-servers.ts";
import { naming } from "./name-database-variable.ts";

const timeoutMs = 60_000;
const retryDelayMs = 500;

/**
 * Migrates the database, retrying for up to a minute while it is unavailable, and claims it for the tenant. Throws `ConfigError` when it
 * belongs to another tenant, or cannot be used with this URL, and `StartFault` when it stays unavailable.
 */
export const prepareDatabase = async (
  { requests, sessions }: CoreServers,
  { tenantId, clock, log }: { tenantId: string; clock: Clock; log: Log },
): Promise<void> => {
  const migrations = await readMigrations();
  // Without a deadline: the migration of a large table takes as long as it takes. The second connection sees what the first waits for.
  const { sql, db, close } = connectDatabase({ ...sessions, connectionsMax: 2, deadlineMs: 0 });
  try {
    await untilAvailable(sessions.variable, { clock, log }, async () => {
      await checkPoolers({ requests, sessions }, log);
      await checkSettings({ requests, sessions });
      const { applied } = await migrate(sql, migrations);
      if (applied.length > 0) log.info({ applied }, "database migrated");
    });
    const owner = await claimDeployment(db, tenantId, new Date(clock.now()));
    if (owner !== tenantId) {
      throw new ConfigError([
        { variable: "SVC_TENANT_ID", message: "is not the tenant that this database belongs to" },
      ]);
    }
  } finally {
    await close(1);
  }
};

/** Runs a part of a start, again for up to a minute while the database is unavailable. Throws `StartFault` when it stays so. */
export const untilAvailable = async <Result>(
  variable: DatabaseVariable,
  { clock, log }: { clock: Pick<Clock, "monotonic" | "sleep">; log: Pick<Log, "warn"> },
  run: () => Promise<Result>,
): Promise<Result> => {
  const deadline = clock.monotonic() + timeoutMs;
  for (;;) {
    try {
      return await naming(variable, run);
    } catch (err) {
      if (databaseProblem(err)?.code !== "database_unavailable") throw err;
      if (clock.monotonic() > deadline) throw startFault(err, variable);
      if (err instanceof MigrationBlocked)
        log.warn({ err, blockers: err.blockers }, `${err.message}; trying again`);
      else log.warn({ err }, "the database is not available yet");
      await clock.sleep(retryDelayMs);
    }
  }
};

/** Runs a command that needs the database. Turns a failure to use it into one line that names the setting, `variable`. */
export const withDatabaseFaults = async <Result>(
  variable: DatabaseVariable,
  run: () => Promise<Result>,
): Promise<Result> => {
  try {
    return await naming(variable, run);
  } catch (err) {
    throw databaseProblem(err)?.code === "database_unavailable" ? startFault(err, variable) : err;
  }
};

/** The message of an error may hold the URL; its code does not. */
const startFault = (err: unknown, variable: DatabaseVariable): StartFault => {
  if (err instanceof MigrationBlocked)
    return new StartFault(`${variable}: ${err.message}, for a minute: ${describeBlockers(err)}`, {
      cause: err,
    });
  const code = errorCode(databaseProblem(err)?.options.cause);
  return new StartFault(`${variable}: the database is not available${code ? ` (${code})` : ""}`, {
    cause: err,
  });
};
