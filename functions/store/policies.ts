import { eq, sql } from "drizzle-orm";
import { enrollmentPolicy } from "../../drizzle/schema/enrollment.ts";
import { anyOf } from "./any-of.ts";
import type { Executor } from "./database.ts";
import { type Page, type Paged, paged, pageOf } from "./page.ts";

/** An enrollment policy's row. */
export type PolicyRow = typeof enrollmentPolicy.$inferSelect;

/** Inserts a policy; undefined when its name is taken. */
export const insertPolicy = async (
  db: Executor,
  row: typeof enrollmentPolicy.$inferInsert,
): Promise<PolicyRow | undefined> => {
  const [inserted] = await db
    .insert(enrollmentPolicy)
    .values(row)
    .onConflictDoNothing({ target: enrollmentPolicy.name })
    .returning();
  return inserted;
};

/** The policy, its row locked until the transaction ends: limits, freeze and issue are decided under this lock. */
export const lockPolicy = async (db: Executor, id: string): Promise<PolicyRow | undefined> => {
  const [row] = await db.select().from(enrollmentPolicy).where(eq(enrollmentPolicy.id, id)).for("no key update");
  return row;
};

/** Marks a policy frozen. */
export const updatePolicyFrozen = async (db: Executor, id: string, frozenAt: Date): Promise<void> => {
  await db.update(enrollmentPolicy).set({ frozenAt }).where(eq(enrollmentPolicy.id, id));
};

/** These policies by id, locked like one, in the order of their ids, so that groups cannot deadlock. */
export const lockPolicies = async (db: Executor, ids: readonly string[]): Promise<Map<string, PolicyRow>> => {
  const { id } = enrollmentPolicy;
  const rows = await db.select().from(enrollmentPolicy).where(anyOf(id, ids)).orderBy(id).for("no key update");
  return new Map(rows.map((row) => [row.id, row]));
};

/** Counts so many more first enrollments. */
export const addEnrollments = async (db: Executor, id: string, enrollments: number): Promise<void> => {
  await db
    .update(enrollmentPolicy)
    .set({ enrollmentCount: sql`${enrollmentPolicy.enrollmentCount} + ${enrollments}` })
    .where(eq(enrollmentPolicy.id, id));
};

/** The policy with this id. */
export const findPolicy = async (db: Executor, id: string): Promise<PolicyRow | undefined> => {
  const [row] = await db.select().from(enrollmentPolicy).where(eq(enrollmentPolicy.id, id));
  return row;
};

/** One page of the policies. */
export const listPolicies = async (db: Executor, page: Page): Promise<Paged<PolicyRow>> => {
  const { where, orderBy, limit } = pageOf(enrollmentPolicy.id, page, []);
  return paged(await db.select().from(enrollmentPolicy).where(where).orderBy(orderBy).limit(limit), page);
};
