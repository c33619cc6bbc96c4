import { sql } from "drizzle-orm";
import type { Executor } from "../database/database.ts";
import { orNull, readRow, timestamptz } from "../database/statements.ts";

/** Stores that core uses PostgreSQL, and since when if an earlier version used JetStream. */
export const noteSink = async (db: Executor, now: Date): Promise<void> => {
  await db.execute(sql`
    insert into ingest_sink (kind) values ('postgres') on conflict (singleton) do update
    set kind = excluded.kind, changed_at = ${timestamptz(now)} where ingest_sink.kind <> excluded.kind`);
};

/** Returns when core left JetStream, in milliseconds; null if never. */
export const findSinkChange = async (db: Executor): Promise<number | null> => {
  const row = await readRow(
    db,
    { at: orNull(Date.parse) },
    sql`select changed_at as at from ingest_sink`,
  );
  return row?.at ?? null;
};
