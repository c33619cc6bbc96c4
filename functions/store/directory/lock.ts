import type { Clock } from "#kit/clock.ts";
import { connectDatabase, type DatabaseTarget, type PoolSettings } from "../database/database.ts";

/** Runs `work` under the lock. Returns undefined, without running it, while another core of this database has the lock. */
export type Exclusively = <Result>(work: () => Promise<Result>) => Promise<Result | undefined>;

// Any constant works if all cores of a database use the same.
const lockKey = 6_102_773_180_445_907n;

/** The server ends the session, and so the lock, after this time without a message from this core, which may be stopped or unreachable. */
const leaseMsDefault = 15_000;

/** The connection of the lock, and its lease. */
type LockOptions = DatabaseTarget &
  Pick<PoolSettings, "openSocket"> & {
    clock: Pick<Clock, "sleep">;
    leaseMs?: number;
  };

/**
 * Creates an advisory lock on its own connection, so that reading a directory for minutes does not occupy the pool. The lock ends with the
 * connection, or within 15 s when this core does not respond. So it only saves work: a writer must still check that nobody else wrote
 * meanwhile.
 */
export const createDirectoryLock =
  ({ clock, leaseMs = leaseMsDefault, ...options }: LockOptions): Exclusively =>
  async (work) => {
    const { sql, close } = connectDatabase({
      ...options,
      connectionsMax: 1,
      applicationName: "svc-server directory lock",
    });
    const ended = new AbortController();
    const renew = async () => {
      while (!ended.signal.aborted) {
        await clock.sleep(leaseMs / 3, ended.signal).catch(() => undefined);
        if (!ended.signal.aborted) await sql`select 1`.catch(() => undefined);
      }
    };
    try {
      // In one statement, so that no connection has the lock without the timeout.
      const [row] = await sql<{ locked: boolean }[]>`
        select set_config('idle_session_timeout', ${String(leaseMs)}, false),
          pg_try_advisory_lock(${lockKey}::bigint) as locked`;
      if (!row?.locked) return undefined;
      void renew();
      return await work();
    } finally {
      ended.abort();
      await close(1);
    }
  };
