import pg from "pg";
import { systemClock } from "#kit/clock.ts";
import type { EmbeddedPostgres } from "#scripts/postgres/embedded-postgres.ts";
import { type Fault, seconds } from "./fault.ts";

const fillEveryMs = 20;
const connectionsMax = 500;

/** Takes every connection that the server has left, again and again until `signal` aborts; then closes all of them. */
const takeConnections = async (postgres: EmbeddedPostgres, signal: AbortSignal) => {
  const taken = new Set<pg.Client>();
  const take = async () => {
    const client = new pg.Client({ connectionString: postgres.url(), application_name: "chaos" });
    client.on("error", () => taken.delete(client));
    try {
      await client.connect();
    } catch {
      return false;
    }
    taken.add(client);
    return true;
  };
  while (!signal.aborted) {
    while (taken.size < connectionsMax && (await take()));
    await systemClock.sleep(fillEveryMs);
  }
  await Promise.all([...taken].map((client) => client.end().catch(() => undefined)));
};

/** Faults of the database server beyond its restarts. */
export const serverFaults: Readonly<Record<string, Fault>> = {
  "fail over to a standby": {
    id: "D2",
    touches: ["postgres"],
    recoveryMs: { max: 5_000 },
    inject: ({ failOver }) => failOver(),
  },
  "use up the connections of PostgreSQL": {
    id: "D5",
    touches: ["postgres"],
    recoveryMs: { max: 5_000 },
    inject: async ({ postgres, sql }, draw) => {
      const stop = new AbortController();
      const taking = takeConnections(postgres, stop.signal);
      const until = performance.now() + seconds(draw, 2, 6);
      while (performance.now() < until) {
        // What core has open would last: it shall need new ones.
        await sql`select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'svc-server%'
          and pid <> pg_backend_pid() and (select count(*) from pg_stat_activity where application_name = 'chaos') > 50`;
        await systemClock.sleep(100);
      }
      stop.abort();
      await taking;
    },
  },
};
