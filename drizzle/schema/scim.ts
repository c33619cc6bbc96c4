import { index, jsonb } from "drizzle-orm/pg-core";
import type { ScimEmail, ScimName } from "#proto/scim/resources.ts";
import { boolean, nullable, primaryKeyOf, table, text, timestamp, uuid } from "./columns.ts";

/** A user that an identity provider pushed (RFC 7643, 4.1). Its person is derived from it. */
export const scimUser = table("scim_user", {
  id: uuid().primaryKey(),
  userName: text(),
  /** `userName` with ASCII letters in lower case: no two users differ in case alone. */
  userNameKey: text().unique("scim_user_user_name_key"),
  externalId: nullable.text().unique("scim_user_external_id"),
  active: boolean(),
  /** Was active in a restored backup, and the identity provider has not stated `active` since. Without effect on an active user. */
  held: boolean().default(false),
  displayName: nullable.text(),
  name: jsonb().$type<ScimName>().notNull(),
  emails: jsonb().$type<ScimEmail[]>().notNull(),
  createdAt: timestamp(),
  updatedAt: timestamp(),
});

/** A group that an identity provider pushed (RFC 7643, 4.2). `svc-admin` and `svc-auditor` grant scopes. */
export const scimGroup = table("scim_group", {
  id: uuid().primaryKey(),
  displayName: text(),
  /** `displayName` with ASCII letters in lower case. */
  displayNameKey: text().unique("scim_group_display_name_key"),
  externalId: nullable.text(),
  createdAt: timestamp(),
  updatedAt: timestamp(),
});

/** A user's membership of a group. */
export const scimMember = table(
  "scim_member",
  {
    groupId: uuid().references(() => scimGroup.id, { onDelete: "cascade" }),
    userId: uuid().references(() => scimUser.id, { onDelete: "cascade" }),
  },
  (columns) => [
    primaryKeyOf(columns.groupId, columns.userId),
    index("scim_member_user").on(columns.userId),
  ],
);

/** A membership of a restored backup, which grants nothing until the identity provider states it again. */
export const scimHeldMember = table(
  "scim_held_member",
  {
    groupId: uuid().references(() => scimGroup.id, { onDelete: "cascade" }),
    userId: uuid().references(() => scimUser.id, { onDelete: "cascade" }),
  },
  (columns) => [
    primaryKeyOf(columns.groupId, columns.userId),
    index("scim_held_member_user").on(columns.userId),
  ],
);
