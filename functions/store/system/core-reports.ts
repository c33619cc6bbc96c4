/** Stores the reports of cores on themselves (docs/operate.md). */

import { lt, sql } from "drizzle-orm";
import { coreReport } from "#drizzle/schema/system.ts";
import { dayMs } from "#kit/clock.ts";
import type { Executor } from "../database/database.ts";
import { readRows } from "../database/statements.ts";

/** The last report of a core. */
export type CoreReport = typeof coreReport.$inferSelect;

/** Replaces the report of a core, and deletes those of cores that have not reported for a day. */
export const upsertCoreReport = async (tx: Executor, report: CoreReport): Promise<void> => {
  await tx
    .insert(coreReport)
    .values(report)
    .onConflictDoUpdate({ target: coreReport.id, set: report });
  await tx
    .delete(coreReport)
    .where(lt(coreReport.reportedAt, new Date(report.reportedAt.getTime() - dayMs)));
};

/** Counts hosts by the machine of the core that received their last heartbeat, if it is not older than `since`. */
export const countHostsByCore = async (
  db: Executor,
  since: Date,
): Promise<ReadonlyMap<string, number>> => {
  const rows = await readRows(
    db,
    { core: String, hosts: Number },
    sql`
    select core, count(*) as hosts from fleet_status where last_heartbeat_at >= ${since.toISOString()}::timestamptz group by core`,
  );
  return new Map(rows.map(({ core, hosts }) => [core, hosts]));
};

/** Finds the last report of each core, by machine and start. */
export const findCoreReports = (db: Executor): Promise<CoreReport[]> =>
  db
    .select()
    .from(coreReport)
    .orderBy(sql`${coreReport.machine} collate "C"`, coreReport.startedAt);
