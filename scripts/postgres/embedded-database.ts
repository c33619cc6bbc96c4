import { readMigrations } from "#functions/node/read-migrations.ts";
import type { ConnectedDatabase } from "#functions/store/database/database.ts";
import { migrate } from "#functions/store/database/migrate.ts";
import { connectNodeDatabase } from "./connect-node-database.ts";
import {
  type EmbeddedPostgres,
  type EmbeddedPostgresOptions,
  startEmbeddedPostgres,
} from "./embedded-postgres.ts";

/** A migrated PostgreSQL of its own, empty; `close` stops the server, and so does leaving the scope of `await using`. */
export interface EmbeddedDatabase
  extends Pick<ConnectedDatabase, "db" | "sql">,
    Pick<EmbeddedPostgres, "tcpUrl">,
    AsyncDisposable {
  url: string;
  /** Process id of the postmaster. */
  readonly pid: number;
  close(): Promise<void>;
}

/** Starts one with PostgreSQL's own settings, durable (fsync and synchronous_commit on) unless the options differ. */
export const openEmbeddedDatabase = async (
  options: EmbeddedPostgresOptions = {},
): Promise<EmbeddedDatabase> => {
  const server = await startEmbeddedPostgres(options);
  const url = server.url();
  // Without a deadline: seeding a large fleet, or counting the rows of a bench, takes longer than any call of core may.
  const { db, sql, close: disconnect } = connectNodeDatabase({ url, deadlineMs: 0 });
  const close = async () => {
    await disconnect();
    await server.stop("immediate");
  };
  try {
    await migrate(sql, await readMigrations());
  } catch (error) {
    await close();
    throw error;
  }
  return {
    url,
    tcpUrl: server.tcpUrl,
    db,
    sql,
    close,
    [Symbol.asyncDispose]: close,
    pid: server.pid,
  };
};
