import { and, asc, eq, ne, or, sql } from "drizzle-orm";
import { scimUser } from "#drizzle/schema/scim.ts";
import type { Executor } from "../database/database.ts";
import { anyOf, deleterOf, finderOf, hasRows, inserterOf } from "../database/statements.ts";
import { type FilterColumns, listScim, type ScimList, type ScimPage } from "./filter.ts";

/** A user that an identity provider pushed. */
export type ScimUserRow = typeof scimUser.$inferSelect;

const batchSize = 2000;

const columns: FilterColumns = {
  attributes: {
    id: { type: "exact", column: sql`${scimUser.id}::text` },
    externalid: { type: "exact", column: sql`${scimUser.externalId}` },
    username: { type: "key", column: sql`${scimUser.userNameKey}` },
    displayname: { type: "text", column: sql`${scimUser.displayName}` },
    active: { type: "boolean", column: sql`${scimUser.active}` },
    "name.formatted": { type: "text", column: sql`(${scimUser.name} ->> 'formatted')` },
    "name.givenname": { type: "text", column: sql`(${scimUser.name} ->> 'givenName')` },
    "name.familyname": { type: "text", column: sql`(${scimUser.name} ->> 'familyName')` },
    "meta.created": { type: "timestamp", column: sql`${scimUser.createdAt}` },
    "meta.lastmodified": { type: "timestamp", column: sql`${scimUser.updatedAt}` },
  },
  lists: {
    emails: {
      from: sql`jsonb_array_elements(${scimUser.emails}) as email(element)`,
      attributes: {
        value: { type: "text", column: sql`(email.element ->> 'value')` },
        type: { type: "text", column: sql`(email.element ->> 'type')` },
        primary: { type: "boolean", column: sql`(email.element ->> 'primary')::boolean` },
      },
    },
  },
};

/** Inserts a user. */
export const insertScimUser = inserterOf(scimUser);

/** Replaces a user's row. */
export const updateScimUser = async (tx: Executor, { id, ...row }: ScimUserRow) => {
  await tx.update(scimUser).set(row).where(eq(scimUser.id, id));
};

/** Deletes a user with its memberships. */
export const deleteScimUser = deleterOf(scimUser);

/** Finds a user by id. */
export const findScimUser = finderOf(scimUser);

/** Finds users by their ids, which may be many. */
export const findScimUsers = (db: Executor, ids: readonly string[]): Promise<ScimUserRow[]> =>
  db.select().from(scimUser).where(anyOf(scimUser.id, ids)).orderBy(asc(scimUser.id));

/** Finds an attribute that another user than `id` has already; undefined for none. */
export const findTakenAttribute = async (
  tx: Executor,
  { id, userNameKey, externalId }: Pick<ScimUserRow, "id" | "userNameKey" | "externalId">,
): Promise<"userName" | "externalId" | undefined> => {
  const same = [
    eq(scimUser.userNameKey, userNameKey),
    ...(externalId === null ? [] : [eq(scimUser.externalId, externalId)]),
  ];
  const [row] = await tx
    .select({ userNameKey: scimUser.userNameKey })
    .from(scimUser)
    .where(and(ne(scimUser.id, id), or(...same)))
    .limit(1);
  if (row === undefined) return undefined;
  return row.userNameKey === userNameKey ? "userName" : "externalId";
};

/** Returns one page of the users, in the order of their creation. Throws `UnsupportedFilter`. */
export const listScimUsers = (db: Executor, page: ScimPage): Promise<ScimList<ScimUserRow>> =>
  listScim(db, scimUser, columns, page);

/** Returns all users. Reads in batches, so that the rows of a large company do not block the event loop. */
export const findAllScimUsers = async (db: Executor): Promise<ScimUserRow[]> => {
  const found: ScimUserRow[] = [];
  for (;;) {
    const last = found.at(-1);
    const batch = await db
      .select()
      .from(scimUser)
      .where(last && sql`${scimUser.id} > ${last.id}`)
      .orderBy(asc(scimUser.id))
      .limit(batchSize);
    found.push(...batch);
    if (batch.length < batchSize) return found;
  }
};

/** Reports whether there is any user. */
export const hasScimUsers = (db: Executor): Promise<boolean> =>
  hasRows(db.select({ id: scimUser.id }).from(scimUser).limit(1));

/** Returns which of the ids are users. */
export const findScimUserIds = async (db: Executor, ids: readonly string[]): Promise<string[]> => {
  const rows = await db.select({ id: scimUser.id }).from(scimUser).where(anyOf(scimUser.id, ids));
  return rows.map(({ id }) => id);
};
