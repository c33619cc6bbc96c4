import type { Clock } from "../../kit/clock.ts";
import { ConfigError } from "../../kit/env.ts";
import type { Log } from "../../kit/log.ts";
import { type ConnectedDatabase, claimDeployment } from "../store/database.ts";
import { databaseProblem } from "../store/database-problem.ts";
import { migrate } from "../store/migrate.ts";
import { readMigrations } from "./read-migrations.ts";

const timeoutMs = 60_000;
const retryDelayMs = 500;

/**
 * Migrates the database, retrying for up to a minute while it is unavailable, and claims it for the tenant. Throws `ConfigError` when it
 * belongs to another tenant.
 */
export const prepareDatabase = async (
  { db, sql }: Pick<ConnectedDatabase, "db" | "sql">,
  { tenantId, clock, log }: { tenantId: string; clock: Clock; log: Log },
): Promise<void> => {
  const migrations = await readMigrations();
  const deadline = clock.monotonic() + timeoutMs;
  for (;;) {
    try {
      const { applied } = await migrate(sql, migrations);
      if (applied.length > 0) log.info({ applied }, "database migrated");
      break;
    } catch (err) {
      if (databaseProblem(err)?.code !== "database_unavailable" || clock.monotonic() > deadline) throw err;
      log.warn({ err }, "the database is not available yet");
      await clock.sleep(retryDelayMs);
    }
  }
  const owner = await claimDeployment(db, tenantId, new Date(clock.now()));
  if (owner !== tenantId) {
    throw new ConfigError([{ variable: "SVC_TENANT_ID", message: "is not the tenant that this database belongs to" }]);
  }
};
