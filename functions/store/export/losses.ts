/** Counts envelopes that retention deletes before exports have read them. */

import { sql } from "drizzle-orm";
import { dayMs } from "#kit/clock.ts";
import type { Database, Executor } from "../database/database.ts";
import { timestampLiteral } from "../database/sql-literals.ts";
import { readOne, readRows } from "../database/statements.ts";
import { findTables } from "../ingest/partitions.ts";
import { estimateRows } from "./lag.ts";

/**
 * Counts the unexported envelopes of a day, or those in the default partition up to its end, by the name of each export that lacks some.
 * Returns the planner's estimate if counting would take more than a few seconds.
 */
export const countNotExported = async (
  db: Database,
  day: number,
  partition: "day" | "default",
): Promise<Record<string, number>> => {
  const exports = await readRows(
    db,
    { name: String, position: BigInt },
    sql`select name, position from export_position where stream is null order by name`,
  );
  const tables = await findTables(db, day, partition);
  const lacking: Record<string, number> = {};
  for (const { name, position } of exports) {
    let count = 0;
    for (const { table, envelopes } of tables) {
      const behind = `from ${table} where xid >= ${position} and received_at < ${timestampLiteral(day + dayMs)}`;
      count += await countEnvelopes(db, envelopes, behind);
    }
    if (count > 0) lacking[name] = count;
  }
  return lacking;
};

const countEnvelopes = async (db: Database, envelopes: string, behind: string) => {
  try {
    return await db.transaction(async (tx) => {
      await tx.execute(sql`set local statement_timeout = '4s'`);
      await tx.execute(sql`set local enable_seqscan = off`);
      const { count } = await readOne(
        tx,
        { count: Number },
        sql.raw(`select coalesce(sum(${envelopes}), 0) as count ${behind}`),
      );
      return count;
    });
  } catch {
    const { average } = await readOne(
      db,
      { average: Number },
      sql.raw(
        `select coalesce(avg(some), 0) as average from (select ${envelopes} as some ${behind} limit 1000) as sample`,
      ),
    );
    return Math.round((await estimateRows(db, sql.raw(`select 1 ${behind}`))) * average);
  }
};

/** Adds envelopes that retention deletes before an export has read them to its count of lost ones. */
export const addLostEnvelopes = async (
  tx: Executor,
  lost: Readonly<Record<string, number>>,
): Promise<void> => {
  for (const [name, count] of Object.entries(lost))
    await tx.execute(
      sql`update export_position set lost = lost + ${count}::bigint where name = ${name}`,
    );
};
