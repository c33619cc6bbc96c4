import { and, count, eq, gt, lte } from "drizzle-orm";
import { enrollmentReservation } from "../../drizzle/schema/enrollment.ts";
import type { Executor } from "./database.ts";

/** A reservation's row. */
export type ReservationRow = typeof enrollmentReservation.$inferSelect;

/** Drops a policy's reservations that have run out. */
export const deleteExpiredReservations = async (db: Executor, policyId: string, now: Date): Promise<void> => {
  await db
    .delete(enrollmentReservation)
    .where(and(eq(enrollmentReservation.policyId, policyId), lte(enrollmentReservation.expiresAt, now)));
};

/** Takes a place for an identity; undefined while another request holds one for it. */
export const insertReservation = async (
  db: Executor,
  row: typeof enrollmentReservation.$inferInsert,
  now: Date,
): Promise<ReservationRow | undefined> => {
  // One that ran out under another policy still holds the identity's name.
  await db
    .delete(enrollmentReservation)
    .where(and(eq(enrollmentReservation.identity, row.identity), lte(enrollmentReservation.expiresAt, now)));
  const [inserted] = await db.insert(enrollmentReservation).values(row).onConflictDoNothing().returning();
  return inserted;
};

/** Gives the place back; false when it had run out and was taken away. */
export const deleteReservation = async (db: Executor, id: string): Promise<boolean> => {
  const rows = await db
    .delete(enrollmentReservation)
    .where(eq(enrollmentReservation.id, id))
    .returning({ id: enrollmentReservation.id });
  return rows.length > 0;
};

/** Whether the identity's place is held at `now`. */
export const isReserved = async (db: Executor, identity: string, now: Date): Promise<boolean> => {
  const [row] = await db
    .select({ held: count() })
    .from(enrollmentReservation)
    .where(and(eq(enrollmentReservation.identity, identity), gt(enrollmentReservation.expiresAt, now)));
  return (row?.held ?? 0) > 0;
};

/** Places held under a policy for first enrollments. Drop the expired ones before. */
export const countFirstReservations = async (db: Executor, policyId: string): Promise<number> => {
  const [row] = await db
    .select({ held: count() })
    .from(enrollmentReservation)
    .where(and(eq(enrollmentReservation.policyId, policyId), eq(enrollmentReservation.firstEnrollment, true)));
  return row?.held ?? 0;
};

/** Places held by uses of a token. Drop the expired ones before. */
export const countTokenReservations = async (db: Executor, tokenId: string): Promise<number> => {
  const [row] = await db
    .select({ held: count() })
    .from(enrollmentReservation)
    .where(eq(enrollmentReservation.tokenId, tokenId));
  return row?.held ?? 0;
};
