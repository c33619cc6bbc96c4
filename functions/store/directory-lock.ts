import { connectDatabase, type DatabaseOptions } from "./database.ts";

/** Runs `work` under the lock. Returns undefined, without running it, while another core of this database has the lock. */
export type Exclusively = <Result>(work: () => Promise<Result>) => Promise<Result | undefined>;

// Any constant works if all cores of a database use the same.
const lockKey = 6_102_773_180_445_907n;

/**
 * Creates an advisory lock on its own connection, so that reading a directory for minutes does not occupy the pool. The lock ends with the
 * connection. So it only saves work: a writer still has to check that nobody wrote meanwhile.
 */
export const createDirectoryLock =
  (options: Pick<DatabaseOptions, "url" | "openSocket" | "servers">): Exclusively =>
  async (work) => {
    const { sql, close } = connectDatabase({
      ...options,
      connectionsMax: 1,
      applicationName: "svc-server directory lock",
    });
    try {
      const [row] = await sql<
        { locked: boolean }[]
      >`select pg_try_advisory_lock(${lockKey.toString()}::bigint) as locked`;
      return row?.locked ? await work() : undefined;
    } finally {
      await close(1);
    }
  };
