import { and, eq, gt, isNull, sql } from "drizzle-orm";
import {
  authorizationCode,
  deviceAuthorization,
  directorySync,
  operatorSession,
  person,
} from "#drizzle/schema/operator.ts";
import { scimGroup, scimHeldMember, scimMember, scimUser } from "#drizzle/schema/scim.ts";
import type { Executor } from "../database/database.ts";
import { anyOf, readOne, texts } from "../database/statements.ts";

/** A person whose access was held or confirmed. */
export type AccessRow = Pick<typeof person.$inferSelect, "userId" | "primaryEmail" | "scopes">;

const access = { userId: person.userId, primaryEmail: person.primaryEmail, scopes: person.scopes };

/**
 * Holds the access of every active person, and ends the sessions of programs. Stores what a SCIM provider granted separately, so that the
 * provider finds people inactive and groups empty, and pushes them again. Returns the people.
 */
export const holdAllAccess = async (tx: Executor, now: Date): Promise<AccessRow[]> => {
  const people = await tx
    .update(person)
    .set({ status: "held", missedSyncs: 0 })
    .where(eq(person.status, "active"))
    .returning(access);
  await tx
    .update(scimUser)
    .set({ active: false, held: true, updatedAt: now })
    .where(eq(scimUser.active, true));
  await tx.execute(sql`insert into ${scimHeldMember} (group_id, user_id)
    select group_id, user_id from ${scimMember} on conflict do nothing`);
  await tx.delete(scimMember);
  await tx
    .update(operatorSession)
    .set({ revokedAt: now })
    .where(and(isNull(operatorSession.revokedAt), gt(operatorSession.expiresAt, now)));
  await tx.delete(authorizationCode);
  await tx.delete(deviceAuthorization);
  await supersedeSyncs(tx);
  return people;
};

/** Makes a sync that is reading the directory write nothing: its data may be older. */
export const supersedeSyncs = async (tx: Executor) => {
  await tx.update(directorySync).set({ syncs: sql`${directorySync.syncs} + 1` });
};

/** Gives held people the access of the backup: those with these addresses, or all if `emails` is null. Returns them. */
export const releasePeople = async (
  tx: Executor,
  emails: readonly string[] | null,
): Promise<AccessRow[]> => {
  const named = emails === null ? undefined : anyOf(person.primaryEmail, emails);
  return tx
    .update(person)
    .set({ status: "active" })
    .where(and(eq(person.status, "held"), named))
    .returning(access);
};

/** Restores what was stored of SCIM users: of these users, or of all if `userIds` is null. */
export const releaseScim = async (tx: Executor, userIds: readonly string[] | null, now: Date) => {
  const isUser = userIds === null ? undefined : anyOf(scimUser.id, userIds);
  const isMember = userIds === null ? undefined : anyOf(scimHeldMember.userId, userIds);
  await tx
    .update(scimUser)
    .set({ active: true, held: false, updatedAt: now })
    .where(and(eq(scimUser.held, true), isUser));
  await tx.execute(sql`insert into ${scimMember} (group_id, user_id)
    select group_id, user_id from ${scimHeldMember} where ${isMember ?? sql`true`} on conflict do nothing`);
  await tx.delete(scimHeldMember).where(isMember);
};

/** Finds the held members of a group. */
export const findHeldMembers = async (tx: Executor, groupId: string): Promise<string[]> => {
  const { userId } = scimHeldMember;
  const rows = await tx
    .select({ userId })
    .from(scimHeldMember)
    .where(eq(scimHeldMember.groupId, groupId));
  return rows.map((row) => row.userId);
};

/** Deletes held members of a group. */
export const deleteHeldMembers = async (
  tx: Executor,
  groupId: string,
  userIds: readonly string[],
) => {
  await tx
    .delete(scimHeldMember)
    .where(and(eq(scimHeldMember.groupId, groupId), anyOf(scimHeldMember.userId, userIds)));
};

/** The access held since a restore: people, and memberships of groups that the provider has not pushed again. */
export interface HeldAccess {
  people: AccessRow[];
  /** With the name of the group, in lower case. */
  memberships: { userName: string; group: string }[];
}

/** Finds the held access, with the memberships of these groups. */
export const findHeldAccess = async (
  db: Executor,
  groups: readonly string[],
): Promise<HeldAccess> => {
  const people = await db
    .select(access)
    .from(person)
    .where(eq(person.status, "held"))
    .orderBy(person.primaryEmail);
  const memberships = await db
    .select({ userName: scimUser.userName, group: scimGroup.displayNameKey })
    .from(scimHeldMember)
    .innerJoin(scimGroup, eq(scimGroup.id, scimHeldMember.groupId))
    .innerJoin(scimUser, eq(scimUser.id, scimHeldMember.userId))
    .where(anyOf(scimGroup.displayNameKey, groups))
    .orderBy(scimGroup.displayNameKey, scimUser.userName);
  return { people, memberships };
};

/** Counts the held access, with the memberships of these groups. */
export const countHeldAccess = (
  db: Executor,
  groups: readonly string[],
): Promise<{ people: number; memberships: number }> =>
  readOne(
    db,
    { people: Number, memberships: Number },
    sql`select
    (select count(*) from ${person} where status = 'held') as people,
    (select count(*) from ${scimHeldMember} m join ${scimGroup} g on g.id = m.group_id
      where g.display_name_key = any(${texts(groups)})) as memberships`,
  );
