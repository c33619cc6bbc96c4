import type { Clock } from "../../kit/clock.ts";
import { errorCode } from "../../kit/describe-error.ts";
import { ConfigError } from "../../kit/env.ts";
import type { Log } from "../../kit/log.ts";
import { destroyClient, openCopyClient } from "../store/copy-transaction.ts";
import { claimDeployment, connectDatabase } from "../store/database.ts";
import { databaseProblem } from "../store/database-problem.ts";
import { migrate } from "../store/migrate.ts";
import type { DatabaseServers } from "./database-servers.ts";
import { readMigrations } from "./read-migrations.ts";
import { StartFault } from "./run-configured.ts";

const timeoutMs = 60_000;
const retryDelayMs = 500;
const variable = "SVC_DATABASE_URL";

/** Faults that a restart of core does not fix, by SQLSTATE. */
const faultsOfSetting: Readonly<Record<string, string>> = {
  "28000": "names a role that the server does not admit",
  "28P01": "has a password that the server refuses",
  "3D000": "names a database that does not exist",
  "42501": "names a role that may not create or change core's tables: it must own them, and the schema",
};

/**
 * Migrates the database, retrying for up to a minute while it is unavailable, and claims it for the tenant. Throws `ConfigError` when it
 * belongs to another tenant, or cannot be used with this URL, and `StartFault` when it stays unavailable.
 */
export const prepareDatabase = async (
  url: string,
  { servers, tenantId, clock, log }: { servers: DatabaseServers; tenantId: string; clock: Clock; log: Log },
): Promise<void> => {
  const migrations = await readMigrations();
  const deadline = clock.monotonic() + timeoutMs;
  // Without a deadline: the migration of a large table takes as long as it takes.
  const { sql, db, close } = connectDatabase({ url, servers, connectionsMax: 1, deadlineMs: 0 });
  try {
    for (;;) {
      try {
        await namingSetting(async () => {
          await rejectTransactionPooler(await servers.locate());
          const { applied } = await migrate(sql, migrations);
          if (applied.length > 0) log.info({ applied }, "database migrated");
        });
        break;
      } catch (err) {
        if (databaseProblem(err)?.code !== "database_unavailable") throw err;
        if (clock.monotonic() > deadline) throw startFault(err);
        log.warn({ err }, "the database is not available yet");
        await clock.sleep(retryDelayMs);
      }
    }
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

/** Runs a command that needs the database. Turns a failure to use it into one line that names the setting. */
export const withDatabaseFaults = async <Result>(run: () => Promise<Result>): Promise<Result> => {
  try {
    return await namingSetting(run);
  } catch (err) {
    throw databaseProblem(err)?.code === "database_unavailable" ? startFault(err) : err;
  }
};

/** The message of an error may hold the URL; its code does not. */
const startFault = (err: unknown): StartFault => {
  const code = errorCode(databaseProblem(err)?.options.cause);
  return new StartFault(`${variable}: the database is not available${code ? ` (${code})` : ""}`, { cause: err });
};

const namingSetting = async <Result>(run: () => Promise<Result>): Promise<Result> => {
  try {
    return await run();
  } catch (error) {
    for (let cause: unknown = error; cause instanceof Error; cause = cause.cause) {
      const message = faultsOfSetting[errorCode(cause) ?? ""];
      if (message !== undefined) throw new ConfigError([{ variable, message }]);
    }
    throw error;
  }
};

/**
 * Throws `ConfigError` when two statements of one connection run on two server processes: a pooler in transaction mode, which breaks
 * advisory locks, LISTEN and prepared statements. Between the two, another connection takes the process of the first if it can.
 */
const rejectTransactionPooler = async (url: string): Promise<void> => {
  const first = await openCopyClient(url);
  try {
    const second = await openCopyClient(url);
    try {
      const process = await backendOf(first);
      await second.query("begin");
      const other = await backendOf(second);
      if (process !== other && (await backendOf(first)) === process) return;
    } finally {
      destroyClient(second);
    }
  } finally {
    destroyClient(first);
  }
  const message = "leads to a pooler in transaction mode: use its session mode, or connect to PostgreSQL itself";
  throw new ConfigError([{ variable, message }]);
};

const backendOf = async (client: Awaited<ReturnType<typeof openCopyClient>>): Promise<number> =>
  (await client.query<{ pid: number }>("select pg_backend_pid() as pid")).rows[0]?.pid ?? 0;
