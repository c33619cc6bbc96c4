import { sql } from "drizzle-orm";
import type { Database } from "../database/database.ts";

const deletedMax = 10_000;

/**
 * Deletes sets of labels that no host has or had in its history, a bounded number, and returns how many. A transaction that gives a host a
 * known set locks the set until its commit: this skips locked sets, and its second statement sees the hosts of those that were unlocked
 * before.
 */
export const deleteUnusedLabelSets = (db: Database): Promise<number> =>
  db.transaction(async (tx) => {
    const unused = sql`id <> 0 and not exists (select from fleet where label_set_id = label_set.id)
      and not exists (select from fleet_history where label_set_id = label_set.id)`;
    const locked = await tx.execute<{ id: number }>(
      sql`select id from label_set where ${unused} limit ${deletedMax} for update skip locked`,
    );
    if (locked.length === 0) return 0;
    const ids = `{${locked.map(({ id }) => id).join(",")}}`;
    const deleted = await tx.execute(
      sql`delete from label_set where id = any(${ids}::integer[]) and ${unused} returning id`,
    );
    return deleted.length;
  });
