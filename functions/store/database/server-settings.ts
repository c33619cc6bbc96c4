import { sql } from "drizzle-orm";
import type { Executor } from "./database.ts";

/** The settings that decide whether a committed row survives a crash and whether the server accepts writes. */
export interface ServerSettings {
  /** The major version. */
  version: number;
  fsync: boolean;
  /** Whether a transaction can write: false on a standby, and where `default_transaction_read_only` is on. */
  writable: boolean;
}

/** Reads the settings of the server. */
export const readServerSettings = async (db: Executor): Promise<ServerSettings> => {
  const [row] = await db.execute<{ version: number; fsync: boolean; writable: boolean }>(sql`
    select current_setting('server_version_num')::int / 10000 as version, current_setting('fsync') = 'on' as fsync,
      current_setting('transaction_read_only') = 'off' as writable`);
  if (row === undefined) throw new Error("the server returned no row");
  return { version: row.version, fsync: row.fsync, writable: row.writable };
};

/** Up to here core's clock and the database's agree: beyond it core is not ready and drops nothing. */
export const clockDifferenceMsMax = 5 * 60_000;

/** Returns the time of the server in milliseconds: retention and partitions go by it, since cores may disagree. */
export const readDatabaseTime = async (db: Executor): Promise<number> => {
  const [row] = await db.execute<{ ms: string }>(sql`
    select floor(extract(epoch from clock_timestamp()) * 1000)::bigint::text as ms`);
  if (row === undefined) throw new Error("the server returned no row");
  return Number(row.ms);
};
