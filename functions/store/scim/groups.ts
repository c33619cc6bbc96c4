import { and, asc, eq, ne, sql } from "drizzle-orm";
import { scimGroup, scimMember, scimUser } from "#drizzle/schema/scim.ts";
import type { Executor } from "../database/database.ts";
import {
  anyOf,
  deleterOf,
  finderOf,
  hasRows,
  inserterOf,
  insertRows,
} from "../database/statements.ts";
import { type FilterColumns, listScim, type ScimList, type ScimPage } from "./filter.ts";

/** A group that an identity provider pushed. */
export type ScimGroupRow = typeof scimGroup.$inferSelect;

/** A member of a group. */
export interface ScimMemberRow {
  groupId: string;
  userId: string;
  userName: string;
}

const columns: FilterColumns = {
  attributes: {
    id: { type: "exact", column: sql`${scimGroup.id}::text` },
    externalid: { type: "exact", column: sql`${scimGroup.externalId}` },
    displayname: { type: "key", column: sql`${scimGroup.displayNameKey}` },
    "meta.created": { type: "timestamp", column: sql`${scimGroup.createdAt}` },
    "meta.lastmodified": { type: "timestamp", column: sql`${scimGroup.updatedAt}` },
  },
  lists: {
    members: {
      from: sql`(select user_id::text as id from ${scimMember} where group_id = ${scimGroup.id}) as member`,
      attributes: { value: { type: "exact", column: sql`member.id` } },
    },
  },
};

/** Inserts a group. */
export const insertScimGroup = inserterOf(scimGroup);

/** Replaces a group's row. */
export const updateScimGroup = async (tx: Executor, { id, ...row }: ScimGroupRow) => {
  await tx.update(scimGroup).set(row).where(eq(scimGroup.id, id));
};

/** Deletes a group with its memberships. */
export const deleteScimGroup = deleterOf(scimGroup);

/** Finds a group by id. */
export const findScimGroup = finderOf(scimGroup);

/** Reports whether another group than `id` has this name. */
export const isGroupNameTaken = (
  tx: Executor,
  { id, displayNameKey }: Pick<ScimGroupRow, "id" | "displayNameKey">,
): Promise<boolean> =>
  hasRows(
    tx
      .select({ id: scimGroup.id })
      .from(scimGroup)
      .where(and(ne(scimGroup.id, id), eq(scimGroup.displayNameKey, displayNameKey)))
      .limit(1),
  );

/** Returns one page of the groups, in the order of their creation. Throws `UnsupportedFilter`. */
export const listScimGroups = (db: Executor, page: ScimPage): Promise<ScimList<ScimGroupRow>> =>
  listScim(db, scimGroup, columns, page);

/** Finds the members of groups, in the order of their creation. */
export const findScimMembers = (
  db: Executor,
  groupIds: readonly string[],
): Promise<ScimMemberRow[]> =>
  db
    .select({ groupId: scimMember.groupId, userId: scimMember.userId, userName: scimUser.userName })
    .from(scimMember)
    .innerJoin(scimUser, eq(scimUser.id, scimMember.userId))
    .where(anyOf(scimMember.groupId, groupIds))
    .orderBy(asc(scimMember.userId));

/** Adds members to a group, unless it has them. */
export const insertScimMembers = async (
  tx: Executor,
  groupId: string,
  userIds: readonly string[],
) => {
  const rows = userIds.map((userId) => ({ groupId, userId }));
  await insertRows(tx, scimMember, rows, sql`on conflict do nothing`);
};

/** Removes members from a group. */
export const deleteScimMembers = async (
  tx: Executor,
  groupId: string,
  userIds: readonly string[],
) => {
  await tx
    .delete(scimMember)
    .where(and(eq(scimMember.groupId, groupId), anyOf(scimMember.userId, userIds)));
};

/** Finds the groups with these names, and which of the users are their members; without `userIds`, all members. */
export const findRoleMembers = async (
  db: Executor,
  displayNameKeys: readonly string[],
  userIds?: readonly string[],
): Promise<Map<string, Set<string>>> => {
  const groups = await db
    .select({ id: scimGroup.id, key: scimGroup.displayNameKey })
    .from(scimGroup)
    .where(anyOf(scimGroup.displayNameKey, displayNameKeys));
  const found = new Map(groups.map(({ key }) => [key, new Set<string>()]));
  const ofUsers = userIds && anyOf(scimMember.userId, userIds);
  for (const { id, key } of groups) {
    const members = await db
      .select({ userId: scimMember.userId })
      .from(scimMember)
      .where(and(eq(scimMember.groupId, id), ofUsers));
    found.set(key, new Set(members.map(({ userId }) => userId)));
  }
  return found;
};
