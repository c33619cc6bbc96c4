import { appendFile, rm } from "node:fs/promises";
import { join } from "node:path";
import pg from "pg";
import { systemClock } from "#kit/clock.ts";
import { waitUntil } from "#scripts/lab/wait-until.ts";
import {
  type EmbeddedPostgres,
  type EmbeddedPostgresOptions,
  startEmbeddedPostgres,
} from "#scripts/postgres/embedded-postgres.ts";
import { takeBaseBackup } from "./base-backup.ts";

/** A primary that can fail over. Everything of it is the current primary's. */
export interface ReplicatedPostgres extends EmbeddedPostgres {
  /** Returns the path of its socket. */
  socket(): string;
  /**
   * Starts a synchronous standby, makes the primary read-only and promotes the standby. Resolves once that is the primary. The old one
   * keeps its connections until the next failover or `stop`.
   */
  failOver(): Promise<void>;
}

const timeoutMs = 30_000;

/** Starts a primary without a standby. */
export const startReplicatedPostgres = async (
  options: Pick<EmbeddedPostgresOptions, "bin" | "env" | "settings"> = {},
): Promise<ReplicatedPostgres> => {
  let primary = await startEmbeddedPostgres(options);
  let demoted: EmbeddedPostgres | undefined;
  return {
    url: (database) => primary.url(database),
    tcpUrl: (database) => primary.tcpUrl(database),
    get pid() {
      return primary.pid;
    },
    restart: (options) => primary.restart(options),
    socket: () => `${hostOf(primary)}/.s.PGSQL.5432`,
    async failOver() {
      await demoted?.stop("immediate");
      const standby = await startStandby(primary, options);
      await withClient(primary, async (client) => {
        // What the primary acknowledges from now on, the standby has.
        await client.query("alter system set synchronous_standby_names = '*'");
        await client.query("select pg_reload_conf()");
        const signal = AbortSignal.timeout(timeoutMs);
        await waitUntil(
          { what: "the standby is synchronous", clock: systemClock, signal, timeoutMs },
          async () => {
            const { rows } = await client.query(
              "select 1 from pg_stat_replication where sync_state = 'sync'",
            );
            return rows[0];
          },
        );
        await client.query("alter system set default_transaction_read_only = on");
        await client.query("select pg_reload_conf()");
      });
      await withClient(standby, (client) => client.query("select pg_promote()"));
      demoted = primary;
      primary = standby;
    },
    async stop(mode) {
      await demoted?.stop("immediate");
      await primary.stop(mode);
    },
  };
};

const hostOf = (server: EmbeddedPostgres): string =>
  decodeURIComponent(new URL(server.url()).hostname);

const withClient = async (
  server: EmbeddedPostgres,
  work: (client: pg.Client) => Promise<unknown>,
) => {
  const client = new pg.Client({ connectionString: server.url() });
  await client.connect();
  try {
    await work(client);
  } finally {
    await client.end();
  }
};

/** Starts a hot standby from a base backup of the primary. */
const startStandby = async (primary: EmbeddedPostgres, options: EmbeddedPostgresOptions) => {
  const standby = await startEmbeddedPostgres(options);
  await standby.restart({
    mode: "immediate",
    async whileStopped(dataDir) {
      await rm(dataDir, { recursive: true });
      await takeBaseBackup(primary, dataDir, { "standby.signal": "" });
      const source = `host=${hostOf(primary)} port=5432 user=postgres`;
      await appendFile(join(dataDir, "postgresql.auto.conf"), `primary_conninfo = '${source}'\n`);
    },
  });
  return standby;
};
