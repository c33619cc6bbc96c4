import { sql } from "drizzle-orm";
import type { Database } from "../database/database.ts";

/** Adds new ranges to the indexes on `xid` of all partitions of rows: until then each read scans these. */
export const summarizeRows = async (db: Pick<Database, "execute">) => {
  await db.execute(sql`
    select brin_summarize_new_values(indexrelid::regclass) from pg_index join pg_class on pg_class.oid = indexrelid
    join pg_am on pg_am.oid = relam
    where amname = 'brin' and indrelid in (select inhrelid from pg_inherits where inhparent = 'ingest_envelope'::regclass)`);
};
