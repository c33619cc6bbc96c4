import { and, count, eq, gt, lt, lte, or, sql } from "drizzle-orm";
import {
  enrollmentFailure,
  enrollmentRefusal,
  enrollmentReservation,
} from "#drizzle/schema/enrollment.ts";
import { refusalCountsOf } from "../audit/audit.ts";
import type { Executor } from "../database/database.ts";
import { anyOf, insertRows } from "../database/statements.ts";

/** A reservation's row. */
export type ReservationRow = typeof enrollmentReservation.$inferSelect;

/** Selects the expired reservations of these policies, and those of these identities under any policy. */
const isExpired = (
  { policyIds, identities }: { policyIds: readonly string[]; identities: readonly string[] },
  now: Date,
) =>
  and(
    or(
      anyOf(enrollmentReservation.policyId, policyIds),
      anyOf(enrollmentReservation.identity, identities),
    ),
    lte(enrollmentReservation.expiresAt, now),
  );

/**
 * Locks the reservations with these ids, and those that `deleteExpiredReservations` deletes, in the order of identities: transactions under
 * different policies share no other lock and could deadlock over a reservation that expired while its certificate was signed.
 */
export const lockReservations = async (
  db: Executor,
  {
    ids,
    ...expired
  }: { ids: readonly string[]; policyIds: readonly string[]; identities: readonly string[] },
  now: Date,
) => {
  const { id, identity } = enrollmentReservation;
  const found = db
    .select({ id })
    .from(enrollmentReservation)
    .where(or(anyOf(id, ids), isExpired(expired, now)));
  await found.orderBy(identity).for("update").prepare("lock_reservations").execute();
};

/** Deletes the expired reservations of these policies, and those of these identities under any policy. */
export const deleteExpiredReservations = async (
  db: Executor,
  ...expired: Parameters<typeof isExpired>
) => {
  const deleted = db.delete(enrollmentReservation).where(isExpired(...expired));
  await deleted.prepare("delete_expired_reservations").execute();
};

/**
 * Inserts reservations, each of another identity, except where the identity has one. Returns the ids of the inserted ones. Inserts in the
 * order of identities, because requests under different policies share no other lock and could deadlock here.
 */
export const insertReservations = async (
  db: Executor,
  rows: readonly ReservationRow[],
): Promise<Set<string>> => {
  const tail = sql`on conflict do nothing returning id`;
  const ordered = rows.toSorted((a, b) => (a.identity < b.identity ? -1 : 1));
  const inserted = await insertRows(db, enrollmentReservation, ordered, tail);
  return new Set(inserted.map(({ id }) => String(id)));
};

/** Deletes reservations. Returns the ids of those that still existed. */
export const deleteReservations = async (
  db: Executor,
  ids: readonly string[],
): Promise<Set<string>> => {
  const { id } = enrollmentReservation;
  const deleted = db.delete(enrollmentReservation).where(anyOf(id, ids)).returning({ id });
  const rows = await deleted.prepare("delete_reservations").execute();
  return new Set(rows.map((row) => row.id));
};

/** Returns the identities that have a reservation at `now`. */
export const findReserved = async (
  db: Executor,
  identities: readonly string[],
  now: Date,
): Promise<Set<string>> => {
  const { identity, expiresAt } = enrollmentReservation;
  const valid = and(anyOf(identity, identities), gt(expiresAt, now));
  const found = db.select({ identity }).from(enrollmentReservation).where(valid);
  const rows = await found.prepare("find_reserved").execute();
  return new Set(rows.map((row) => row.identity));
};

/** Counts the reservations of these policies by token, and those for first enrollments, without those expired at `now`. */
export const countReservations = (db: Executor, policyIds: readonly string[], now: Date) => {
  const { policyId, tokenId, firstEnrollment, expiresAt } = enrollmentReservation;
  return db
    .select({
      policyId,
      tokenId,
      held: count(),
      first: sql<number>`count(*) filter (where ${eq(firstEnrollment, true)})::int`,
    })
    .from(enrollmentReservation)
    .where(and(anyOf(policyId, policyIds), gt(expiresAt, now)))
    .groupBy(policyId, tokenId)
    .prepare("count_reservations")
    .execute();
};

/** Counts the failed uses of each of these addresses after `since`. */
export const countFailures = async (
  db: Executor,
  addressKeys: readonly string[],
  since: Date,
): Promise<Map<string, number>> => {
  const { addressKey, occurredAt } = enrollmentFailure;
  const rows = await db
    .select({ addressKey, failures: count() })
    .from(enrollmentFailure)
    .where(and(anyOf(addressKey, addressKeys), gt(occurredAt, since)))
    .groupBy(addressKey);
  return new Map(rows.map((row) => [row.addressKey, row.failures]));
};

/** Inserts failed uses and deletes those of their addresses from before `forgetBefore`. */
export const insertFailures = async (
  db: Executor,
  rows: readonly (typeof enrollmentFailure.$inferInsert)[],
  forgetBefore: Date,
) => {
  if (rows.length === 0) return;
  const addressKeys = [...new Set(rows.map(({ addressKey }) => addressKey))];
  await db
    .delete(enrollmentFailure)
    .where(
      and(
        anyOf(enrollmentFailure.addressKey, addressKeys),
        lt(enrollmentFailure.occurredAt, forgetBefore),
      ),
    );
  await insertRows(db, enrollmentFailure, rows);
};

/** Deletes failed uses from before `forgetBefore`, which `insertFailures` deletes only for addresses that fail again. */
export const deleteFailures = async (db: Executor, forgetBefore: Date) => {
  await db.delete(enrollmentFailure).where(lt(enrollmentFailure.occurredAt, forgetBefore));
};

/** The number of rejected enrollments of one address in one minute, for one reason. */
export type RefusalRow = typeof enrollmentRefusal.$inferSelect;

/** The counts of rejected enrollments. An address that has a count has one for each further reason too. */
export const enrollmentCounts = refusalCountsOf<RefusalRow>(enrollmentRefusal, {
  within: ({ minuteStartedAt }) => eq(enrollmentRefusal.minuteStartedAt, minuteStartedAt),
  keyOf: ({ addressKey, reason }) => `${addressKey} ${reason}`,
  knownBy: ({ addressKey }) => addressKey,
});
