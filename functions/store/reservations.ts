import { and, count, eq, lte, or, sql } from "drizzle-orm";
import { enrollmentReservation } from "../../drizzle/schema/enrollment.ts";
import { anyOf } from "./any-of.ts";
import type { Executor } from "./database.ts";
import { insertRows } from "./insert-rows.ts";

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
