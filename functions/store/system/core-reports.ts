/** What cores say of themselves (docs/system.md). */
import { lt, sql } from "drizzle-orm";
import { coreReport } from "../../../drizzle/schema/system.ts";
import { dayMs } from "../../../kit/clock.ts";
import type { Executor } from "../database/database.ts";

/** What a core last said of itself. */
export type CoreReport = typeof coreReport.$inferSelect;

/** Stores what a core says of itself, in place of what it said before, and deletes those that said nothing for a day. */
export const upsertCoreReport = async (tx: Executor, report: CoreReport): Promise<void> => {
  await tx.insert(coreReport).values(report).onConflictDoUpdate({ target: coreReport.id, set: report });
  await tx.delete(coreReport).where(lt(coreReport.reportedAt, new Date(report.reportedAt.getTime() - dayMs)));
};

/** Finds what each core last said, by machine and start. */
export const findCoreReports = (db: Executor): Promise<CoreReport[]> =>
  db.select().from(coreReport).orderBy(sql`${coreReport.machine} collate "C"`, coreReport.startedAt);
