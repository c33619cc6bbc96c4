import { and, count, eq, gt, lt } from "drizzle-orm";
import { enrollmentFailure } from "../../drizzle/schema/enrollment.ts";
import type { Executor } from "./database.ts";

/** Failed uses of an address after a moment. */
export const countFailures = async (db: Executor, addressKey: string, since: Date): Promise<number> => {
  const [row] = await db
    .select({ failures: count() })
    .from(enrollmentFailure)
    .where(and(eq(enrollmentFailure.addressKey, addressKey), gt(enrollmentFailure.occurredAt, since)));
  return row?.failures ?? 0;
};

/** Records a failed use, and forgets those of the address that no window reaches any more. */
export const insertFailure = async (
  db: Executor,
  row: typeof enrollmentFailure.$inferInsert,
  forgetBefore: Date,
): Promise<void> => {
  await db
    .delete(enrollmentFailure)
    .where(and(eq(enrollmentFailure.addressKey, row.addressKey), lt(enrollmentFailure.occurredAt, forgetBefore)));
  await db.insert(enrollmentFailure).values(row);
};
