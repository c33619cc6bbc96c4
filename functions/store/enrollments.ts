import { and, count, eq, gt, inArray, lt, lte, or, sql } from "drizzle-orm";
import { enrollmentFailure, enrollmentRefusal, enrollmentReservation } from "../../drizzle/schema/enrollment.ts";
import type { Executor } from "./database.ts";
import { anyOf, insertRows } from "./query-parts.ts";

/** A reservation's row. */
export type ReservationRow = typeof enrollmentReservation.$inferSelect;

/**
 * Drops reservations that have run out: those of the policies, and those that still hold one of the identities' names under
 * another policy.
 */
export const deleteExpiredReservations = async (
  db: Executor,
  { policyIds, identities }: { policyIds: readonly string[]; identities: readonly string[] },
  now: Date,
): Promise<void> => {
  const { policyId, identity, expiresAt } = enrollmentReservation;
  const concerned = or(anyOf(policyId, policyIds), anyOf(identity, identities));
  await db.delete(enrollmentReservation).where(and(concerned, lte(expiresAt, now)));
};

/**
 * Takes places for identities, each of another one; gives the ids of those it took: not where another request holds one. In the
 * order of their names: requests under other policies, whose locks are others, wait here for each other.
 */
export const insertReservations = async (db: Executor, rows: readonly ReservationRow[]): Promise<Set<string>> => {
  const tail = sql`on conflict do nothing returning id`;
  const ordered = rows.toSorted((a, b) => (a.identity < b.identity ? -1 : 1));
  const inserted = await insertRows(db, enrollmentReservation, ordered, tail);
  return new Set(inserted.map(({ id }) => String(id)));
};

/** Gives places back; the ids of those that had not run out and been taken away. */
export const deleteReservations = async (db: Executor, ids: readonly string[]): Promise<Set<string>> => {
  const { id } = enrollmentReservation;
  const rows = await db.delete(enrollmentReservation).where(anyOf(id, ids)).returning({ id });
  return new Set(rows.map((row) => row.id));
};

/** Which of the identities have a place held. Drop the expired ones before. */
export const findReserved = async (db: Executor, identities: readonly string[]): Promise<Set<string>> => {
  const { identity } = enrollmentReservation;
  const rows = await db.select({ identity }).from(enrollmentReservation).where(anyOf(identity, identities));
  return new Set(rows.map((row) => row.identity));
};

/** Places held under the policies: by token, and how many of them for first enrollments. Drop the expired ones before. */
export const countReservations = (db: Executor, policyIds: readonly string[]) => {
  const { policyId, tokenId, firstEnrollment } = enrollmentReservation;
  return db
    .select({
      policyId,
      tokenId,
      held: count(),
      first: sql<number>`count(*) filter (where ${eq(firstEnrollment, true)})::int`,
    })
    .from(enrollmentReservation)
    .where(anyOf(policyId, policyIds))
    .groupBy(policyId, tokenId);
};

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
