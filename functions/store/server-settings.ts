import { sql } from "drizzle-orm";
import type { Executor } from "./database.ts";

/** What decides whether a committed row survives a crash, and whether anything can be written at all. */
export interface ServerSettings {
  version: number;
  fsync: boolean;
  inRecovery: boolean;
}

/** Asks the server; `version` is the major one. */
export const readServerSettings = async (db: Executor): Promise<ServerSettings> => {
  const [row] = await db.execute<{ version: number; fsync: boolean; recovering: boolean }>(sql`
    select current_setting('server_version_num')::int / 10000 as version, current_setting('fsync') = 'on' as fsync,
      pg_is_in_recovery() as recovering`);
  if (row === undefined) throw new Error("the server answered no row");
  return { version: row.version, fsync: row.fsync, inRecovery: row.recovering };
};
