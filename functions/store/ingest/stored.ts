/**
 * Counts what is stored, in the transaction that stores it and apart from the rows themselves: the measure that an export's reader is held
 * to. Each backend of the server has a row of its own, so no transaction waits for another one.
 */
import { sql } from "drizzle-orm";
import type { Executor } from "../database/database.ts";
import type { BlockToStore } from "./block-rows.ts";

/** Prepares `count_stored`. */
export const prepareStoredCount = `
  prepare count_stored (bigint) as
    insert into ingest_stored (backend, envelopes) values (pg_backend_pid(), $1)
    on conflict (backend) do update set envelopes = ingest_stored.envelopes + excluded.envelopes`;

/** Returns the statement that counts the envelopes of blocks; none without a block. */
export const storedCount = (blocks: readonly BlockToStore[]): string[] => {
  const count = blocks.reduce((sum, { run }) => sum + run.count, 0);
  return count === 0 ? [] : [`execute count_stored(${count})`];
};

/** Adds the counts of backends that have ended up in row 0. */
export const foldStoredCounts = async (db: Executor): Promise<void> => {
  await db.execute(sql`
    with ended as (
      delete from ingest_stored where backend <> 0 and backend not in (select pid from pg_stat_activity where pid is not null)
      returning envelopes)
    insert into ingest_stored (backend, envelopes) select 0, sum(envelopes) from ended having count(*) > 0
    on conflict (backend) do update set envelopes = ingest_stored.envelopes + excluded.envelopes`);
};
