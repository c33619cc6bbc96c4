import { connectDatabase, type DatabaseOptions } from "./database.ts";

/** Runs `work` unless another core of this database is at it; undefined then. */
export type Exclusively = <Result>(work: () => Promise<Result>) => Promise<Result | undefined>;

// Any constant works, as long as every core of a database takes the same.
const lockKey = 6_102_773_180_445_907n;

/**
 * An advisory lock on a connection of its own, which reading a directory may keep for minutes while the pool serves. Ends with the
 * connection, however that ends; so it saves work, and whoever writes still makes sure that nobody wrote meanwhile.
 */
export const createDirectoryLock =
  (options: Pick<DatabaseOptions, "url" | "openSocket">): Exclusively =>
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
      await close();
    }
  };
