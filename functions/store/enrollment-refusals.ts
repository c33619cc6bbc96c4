import { inArray, lt, sql } from "drizzle-orm";
import { enrollmentRefusal } from "../../drizzle/schema/enrollment.ts";
import type { Executor } from "./database.ts";

/** A minute's refused uses of one address for one reason. */
export type RefusalRow = typeof enrollmentRefusal.$inferSelect;

/** Counts one refused use; true for the first of its address, minute and reason, and for that one alone. */
export const countRefusal = async (
  db: Executor,
  { addressKey, minuteStartedAt, reason, at }: { addressKey: string; minuteStartedAt: Date; reason: string; at: Date },
): Promise<boolean> => {
  const { refusals, lastAt } = enrollmentRefusal;
  const [row] = await db
    .insert(enrollmentRefusal)
    .values({ addressKey, minuteStartedAt, reason, refusals: 1, lastAt: at })
    .onConflictDoUpdate({
      target: [enrollmentRefusal.addressKey, enrollmentRefusal.minuteStartedAt, enrollmentRefusal.reason],
      set: { refusals: sql`${refusals} + 1`, lastAt: sql`greatest(${lastAt}, excluded.last_at)` },
    })
    .returning({ refusals });
  return row?.refusals === 1;
};

/** Takes away, and gives, at most `limit` counts of minutes that began before a moment; what another takes meanwhile is left out. */
export const takeRefusals = async (db: Executor, before: Date, limit: number): Promise<RefusalRow[]> => {
  const due = db
    .select({ place: sql`ctid` })
    .from(enrollmentRefusal)
    .where(lt(enrollmentRefusal.minuteStartedAt, before))
    .limit(limit)
    .for("update", { skipLocked: true });
  return db.delete(enrollmentRefusal).where(inArray(sql`ctid`, due)).returning();
};
