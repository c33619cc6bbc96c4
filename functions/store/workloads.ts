import { eq } from "drizzle-orm";
import { workload } from "../../drizzle/schema/workload.ts";
import type { Executor } from "./database.ts";

/** A workload that has exchanged a token. */
export type WorkloadRow = typeof workload.$inferSelect;

/** Inserts a workload, or updates when it was last seen. Returns its row, with the id of its first exchange. */
export const upsertWorkload = async (db: Executor, row: WorkloadRow): Promise<WorkloadRow> => {
  const [stored] = await db
    .insert(workload)
    .values(row)
    .onConflictDoUpdate({ target: [workload.issuer, workload.subject], set: { lastSeenAt: row.lastSeenAt } })
    .returning();
  return stored ?? row;
};

/** Finds a workload. */
export const findWorkload = async (db: Executor, id: string): Promise<WorkloadRow | undefined> => {
  const [row] = await db.select().from(workload).where(eq(workload.id, id)).limit(1);
  return row;
};
