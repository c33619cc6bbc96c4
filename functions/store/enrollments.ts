import { and, count, eq, gt, inArray, lt, lte, or, sql } from "drizzle-orm";
import { enrollmentFailure, enrollmentRefusal, enrollmentReservation } from "../../drizzle/schema/enrollment.ts";
import type { Executor } from "./database.ts";
import { anyOf, insertRows } from "./query-parts.ts";

/** A reservation's row. */
export type ReservationRow = typeof enrollmentReservation.$inferSelect;

/** Deletes the expired reservations of these policies, and those of these identities under any policy. */
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
 * Inserts reservations, each of another identity, except where the identity has one. Returns the ids of the inserted ones. Inserts in the
 * order of identities, because requests under different policies share no other lock and could deadlock here.
 */
export const insertReservations = async (db: Executor, rows: readonly ReservationRow[]): Promise<Set<string>> => {
  const tail = sql`on conflict do nothing returning id`;
  const ordered = rows.toSorted((a, b) => (a.identity < b.identity ? -1 : 1));
  const inserted = await insertRows(db, enrollmentReservation, ordered, tail);
  return new Set(inserted.map(({ id }) => String(id)));
};

/** Deletes reservations. Returns the ids of those that still existed. */
export const deleteReservations = async (db: Executor, ids: readonly string[]): Promise<Set<string>> => {
  const { id } = enrollmentReservation;
  const rows = await db.delete(enrollmentReservation).where(anyOf(id, ids)).returning({ id });
  return new Set(rows.map((row) => row.id));
};

/** Returns those of the identities that have a reservation. Delete the expired ones first. */
export const findReserved = async (db: Executor, identities: readonly string[]): Promise<Set<string>> => {
  const { identity } = enrollmentReservation;
  const rows = await db.select({ identity }).from(enrollmentReservation).where(anyOf(identity, identities));
  return new Set(rows.map((row) => row.identity));
};

/** Counts the reservations of these policies by token, and those for first enrollments. Delete the expired ones first. */
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

/** Counts the failed uses of an address after `since`. */
export const countFailures = async (db: Executor, addressKey: string, since: Date): Promise<number> => {
  const [row] = await db
    .select({ failures: count() })
    .from(enrollmentFailure)
    .where(and(eq(enrollmentFailure.addressKey, addressKey), gt(enrollmentFailure.occurredAt, since)));
  return row?.failures ?? 0;
};

/** Inserts a failed use and deletes those of the address from before `forgetBefore`. */
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

/** Deletes the failed uses from before `forgetBefore`, of addresses that did not come back. */
export const deleteFailures = async (db: Executor, forgetBefore: Date): Promise<void> => {
  await db.delete(enrollmentFailure).where(lt(enrollmentFailure.occurredAt, forgetBefore));
};

/** The number of rejected enrollments of one address in one minute, for one reason. */
export type RefusalRow = typeof enrollmentRefusal.$inferSelect;

/**
 * Whether a rejected enrollment is counted under its own address: its address has a count in this minute, or fewer than `keysMax` others
 * have. Concurrent calls may exceed `keysMax` by one each.
 */
export const hasRefusalSlot = async (
  db: Executor,
  { addressKey, minuteStartedAt }: { addressKey: string; minuteStartedAt: Date },
  keysMax: number,
): Promise<boolean> => {
  const inMinute = eq(enrollmentRefusal.minuteStartedAt, minuteStartedAt);
  const known = db
    .select()
    .from(enrollmentRefusal)
    .where(and(inMinute, eq(enrollmentRefusal.addressKey, addressKey)));
  const counted = db.select({ one: sql`1` }).from(enrollmentRefusal).where(inMinute).limit(keysMax).as("counted");
  const [row] = await db.select({ known: sql<boolean>`exists ${known}`, counts: count() }).from(counted);
  return row === undefined || row.known || row.counts < keysMax;
};

/** Counts a rejected enrollment. Returns true for the first one of its address, minute and reason only. */
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

/** Deletes and returns at most `limit` counts of minutes that began before `before`. Skips those that another core has locked. */
export const deleteRefusals = async (db: Executor, before: Date, limit: number): Promise<RefusalRow[]> => {
  const due = db
    .select({ ctid: sql`ctid` })
    .from(enrollmentRefusal)
    .where(lt(enrollmentRefusal.minuteStartedAt, before))
    .limit(limit)
    .for("update", { skipLocked: true });
  return db.delete(enrollmentRefusal).where(inArray(sql`ctid`, due)).returning();
};
