import { and, eq } from "drizzle-orm";
import { appliedSet } from "#drizzle/schema/applied-set.ts";
import type { Executor } from "../database/database.ts";
import { finderOf } from "../database/statements.ts";

/** A set's row. */
export type AppliedSetRow = typeof appliedSet.$inferSelect;

/** Finds a set by its name. */
export const findAppliedSet = finderOf(appliedSet, appliedSet.name);

/** Writes the row of the revision after `before`, 0 for none. Returns false if the set has another revision. */
export const replaceAppliedSet = async (
  tx: Executor,
  before: number,
  row: AppliedSetRow,
): Promise<boolean> => {
  const written =
    before === 0
      ? await tx
          .insert(appliedSet)
          .values(row)
          .onConflictDoNothing()
          .returning({ name: appliedSet.name })
      : await tx
          .update(appliedSet)
          .set(row)
          .where(and(eq(appliedSet.name, row.name), eq(appliedSet.revision, before)))
          .returning({ name: appliedSet.name });
  return written.length > 0;
};
