import { openDatabaseSocket } from "../../functions/node/database-socket.ts";
import { readMigrations } from "../../functions/node/read-migrations.ts";
import { type ConnectedDatabase, connectDatabase } from "../../functions/store/database.ts";
import { migrate } from "../../functions/store/migrate.ts";
import { startEmbeddedPostgres } from "../postgres/embedded-postgres.ts";

/** A migrated, empty, durable PostgreSQL (fsync and synchronous_commit on) that ends with `close`. */
export interface BenchDatabase extends Pick<ConnectedDatabase, "db" | "sql"> {
  url: string;
  /** Process id of the postmaster. */
  pid: number;
  close(): Promise<void>;
}

/** Starts one for a bench, with PostgreSQL's own defaults but for `settings`. */
export const openBenchDatabase = async (settings: Readonly<Record<string, string>> = {}): Promise<BenchDatabase> => {
  const server = await startEmbeddedPostgres({ settings });
  const url = server.url();
  const { db, sql, close } = connectDatabase({ url, openSocket: openDatabaseSocket });
  await migrate(sql, await readMigrations());
  return {
    url,
    pid: server.pid,
    db,
    sql,
    close: async () => {
      await close();
      await server.stop("immediate");
    },
  };
};
