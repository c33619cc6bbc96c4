import { and, count, eq, gt, lt, sql } from "drizzle-orm";
import {
  authenticationIdentity,
  directorySync,
  type PersonStatus,
  person,
} from "#drizzle/schema/operator.ts";
import type { Database, Executor } from "../database/database.ts";
import { anyOf, firstRow, insertRows } from "../database/statements.ts";

/** The result of the newest sync. */
export type DirectorySync = Omit<typeof directorySync.$inferSelect, "singleton">;

/** A person's row. */
export type PersonRow = typeof person.$inferSelect;

const batchSize = 2000;

/** Finds the result of the newest sync. */
export const findDirectorySync = (db: Executor): Promise<DirectorySync | undefined> =>
  firstRow(db.select().from(directorySync));

/** Finds the result of the newest sync, and locks it for writing a snapshot until the transaction ends. */
export const lockDirectorySync = async (tx: Executor): Promise<DirectorySync | undefined> => {
  // Locks the table, because there is no row before the first sync. Readers do not wait.
  await tx.execute(sql`lock table ${directorySync} in exclusive mode`);
  return findDirectorySync(tx);
};

/** Replaces the result of the newest sync. */
export const saveDirectorySync = async (tx: Executor, row: DirectorySync) => {
  await tx
    .insert(directorySync)
    .values(row)
    .onConflictDoUpdate({ target: directorySync.singleton, set: row });
};

/**
 * Finds all people, with their subject within the tenant (null if no sync has written it). Reads in batches, so that the rows of a large
 * company do not block the event loop.
 */
export const findKnownPeople = async (tx: Executor, tenantId: string) => {
  const found: Awaited<ReturnType<typeof findPeopleAfter>> = [];
  for (;;) {
    const batch = await findPeopleAfter(tx, tenantId, found.at(-1)?.userId);
    found.push(...batch);
    if (batch.length < batchSize) return found;
  }
};

const knownPerson = {
  userId: person.userId,
  subject: authenticationIdentity.subject,
  primaryEmail: person.primaryEmail,
  displayName: person.displayName,
  status: person.status,
  scopes: person.scopes,
  missedSyncs: person.missedSyncs,
};

/** Finds the people with these subjects within the tenant. */
export const findPeopleOfSubjects = (tx: Executor, tenantId: string, subjects: readonly string[]) =>
  tx
    .select(knownPerson)
    .from(authenticationIdentity)
    .innerJoin(person, eq(person.userId, authenticationIdentity.userId))
    .where(
      and(
        eq(authenticationIdentity.tenantId, tenantId),
        anyOf(authenticationIdentity.subject, subjects),
      ),
    );

const findPeopleAfter = (tx: Executor, tenantId: string, userId: string | undefined) =>
  tx
    .select(knownPerson)
    .from(person)
    .leftJoin(
      authenticationIdentity,
      and(
        eq(authenticationIdentity.userId, person.userId),
        eq(authenticationIdentity.tenantId, tenantId),
      ),
    )
    .where(userId === undefined ? undefined : gt(person.userId, userId))
    .orderBy(person.userId)
    .limit(batchSize);

/** Inserts people, or replaces their rows. */
export const writePeople = async (tx: Executor, rows: readonly PersonRow[]) => {
  const replace = sql`on conflict (user_id) do update set primary_email = excluded.primary_email,
    display_name = excluded.display_name, status = excluded.status, scopes = excluded.scopes, synced_at = excluded.synced_at,
    missed_syncs = excluded.missed_syncs`;
  for (const batch of batchesOf(rows)) await insertRows(tx, person, batch, replace);
};

/** Inserts the subjects of new people. */
export const writeAuthenticationIdentities = async (
  tx: Executor,
  rows: readonly (typeof authenticationIdentity.$inferInsert)[],
) => {
  for (const batch of batchesOf(rows)) await insertRows(tx, authenticationIdentity, batch);
};

const batchesOf = function* <Row>(rows: readonly Row[]): Generator<readonly Row[]> {
  for (let at = 0; at < rows.length; at += batchSize) yield rows.slice(at, at + batchSize);
};

/** Stores that a snapshot agrees with all people except those whose removal is held. */
export const confirmPeople = async (tx: Executor, syncedAt: Date) => {
  await tx
    .update(person)
    .set({ syncedAt })
    .where(and(eq(person.missedSyncs, 0), lt(person.syncedAt, syncedAt)));
};

/** Counts the people whose removal is held. */
export const countHeld = (db: Executor): Promise<number> =>
  db.$count(person, gt(person.missedSyncs, 0));

/** The number of people by status, and of active people by scope and with a held removal. */
export interface PeopleCounts {
  people: Record<PersonStatus, number>;
  scopes: { read: number; audit: number; admin: number };
  held: number;
}

/** Counts people. */
export const countPeople = async (db: Database): Promise<PeopleCounts> => {
  const rows = await db
    .select({
      status: person.status,
      people: count(),
      read: holding("read"),
      audit: holding("audit"),
      admin: holding("admin"),
      held: sql<number>`count(*) filter (where ${person.missedSyncs} > 0)::int`,
    })
    .from(person)
    .groupBy(person.status);
  const active = rows.find(({ status }) => status === "active");
  const people = (status: PersonStatus) => rows.find((row) => row.status === status)?.people ?? 0;
  return {
    people: {
      active: people("active"),
      held: people("held"),
      suspended: people("suspended"),
      archived: people("archived"),
      unverified: people("unverified"),
      absent: people("absent"),
    },
    scopes: { read: active?.read ?? 0, audit: active?.audit ?? 0, admin: active?.admin ?? 0 },
    held: active?.held ?? 0,
  };
};

const holding = (scope: string) =>
  sql<number>`count(*) filter (where ${scope} = any(${person.scopes}))::int`;
