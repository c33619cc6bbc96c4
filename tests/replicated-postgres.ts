import { appendFile, chown, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import pg from "pg";
import { systemClock } from "../kit/clock.ts";
import { waitUntil } from "../scripts/lab/wait-until.ts";
import { type EmbeddedPostgres, startEmbeddedPostgres } from "../scripts/postgres/embedded-postgres.ts";
import { run } from "../scripts/postgres/embedded-postgres-files.ts";

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
export const startReplicatedPostgres = async (): Promise<ReplicatedPostgres> => {
  let primary = await startEmbeddedPostgres();
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
      const standby = await startStandby(primary);
      await withClient(primary, async (client) => {
        // What the primary acknowledges from now on, the standby has.
        await client.query("alter system set synchronous_standby_names = '*'");
        await client.query("select pg_reload_conf()");
        const signal = AbortSignal.timeout(timeoutMs);
        await waitUntil({ what: "the standby is synchronous", clock: systemClock, signal, timeoutMs }, async () => {
          const { rows } = await client.query("select 1 from pg_stat_replication where sync_state = 'sync'");
          return rows[0];
        });
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

const hostOf = (server: EmbeddedPostgres): string => decodeURIComponent(new URL(server.url()).hostname);

const withClient = async (server: EmbeddedPostgres, work: (client: pg.Client) => Promise<unknown>): Promise<void> => {
  const client = new pg.Client({ connectionString: server.url() });
  await client.connect();
  try {
    await work(client);
  } finally {
    await client.end();
  }
};

/** Starts a hot standby from an online copy of the primary's data directory (PostgreSQL's manual, "Making a Base Backup Using the Low Level API"). */
const startStandby = async (primary: EmbeddedPostgres): Promise<EmbeddedPostgres> => {
  const standby = await startEmbeddedPostgres();
  await withClient(primary, async (client) => {
    const { rows: settings } = await client.query<{ data_directory: string }>("show data_directory");
    const from = settings[0]?.data_directory ?? "";
    await client.query("select pg_backup_start('standby', true)");
    await standby.restart({
      mode: "immediate",
      async whileStopped(dataDir) {
        const { uid, gid, mode } = await stat(dataDir);
        await rm(dataDir, { recursive: true });
        // Fails when a file ends in the middle, which a base backup may ignore.
        await run("cp", ["-Rp", from, dataDir]).catch(() => undefined);
        await run("chmod", [(mode & 0o777).toString(8), dataDir]);
        const { rows } = await client.query<{ labelfile: string }>("select labelfile from pg_backup_stop(false)");
        for (const name of ["postmaster.pid", "postmaster.opts", "server.log"])
          await rm(join(dataDir, name), { force: true });
        const files = { backup_label: rows[0]?.labelfile ?? "", "standby.signal": "" };
        for (const [name, text] of Object.entries(files)) {
          await writeFile(join(dataDir, name), text);
          await chown(join(dataDir, name), uid, gid);
        }
        const source = `host=${hostOf(primary)} port=5432 user=postgres`;
        await appendFile(join(dataDir, "postgresql.auto.conf"), `primary_conninfo = '${source}'\n`);
      },
    });
  });
  return standby;
};
