import { boolean, index, jsonb, pgTable, primaryKey, text, uuid } from "drizzle-orm/pg-core";
import type { ScimEmail, ScimName } from "../../proto/scim/resources.ts";
import { timestamp } from "./columns.ts";

/** A user that an identity provider pushed (RFC 7643, 4.1). Its person is derived from it. */
export const scimUser = pgTable("scim_user", {
  id: uuid("id").primaryKey(),
  userName: text("user_name").notNull(),
  /** `userName` with ASCII letters in lower case: no two users differ in case alone. */
  userNameKey: text("user_name_key").notNull().unique("scim_user_user_name_key"),
  externalId: text("external_id").unique("scim_user_external_id"),
  active: boolean("active").notNull(),
  /** Was active in a restored backup, and the identity provider has not stated `active` since. Without effect on an active user. */
  held: boolean("held").notNull().default(false),
  displayName: text("display_name"),
  name: jsonb("name").$type<ScimName>().notNull(),
  emails: jsonb("emails").$type<ScimEmail[]>().notNull(),
  createdAt: timestamp("created_at").notNull(),
  updatedAt: timestamp("updated_at").notNull(),
});

/** A group that an identity provider pushed (RFC 7643, 4.2). `svc-admin` and `svc-auditor` grant scopes. */
export const scimGroup = pgTable("scim_group", {
  id: uuid("id").primaryKey(),
  displayName: text("display_name").notNull(),
  /** `displayName` with ASCII letters in lower case. */
  displayNameKey: text("display_name_key").notNull().unique("scim_group_display_name_key"),
  externalId: text("external_id"),
  createdAt: timestamp("created_at").notNull(),
  updatedAt: timestamp("updated_at").notNull(),
});

/** A user's membership of a group. */
export const scimMember = pgTable(
  "scim_member",
  {
    groupId: uuid("group_id")
      .notNull()
      .references(() => scimGroup.id, { onDelete: "cascade" }),
    userId: uuid("user_id")
      .notNull()
      .references(() => scimUser.id, { onDelete: "cascade" }),
  },
  (table) => [
    primaryKey({ columns: [table.groupId, table.userId] }),
    index("scim_member_user").on(table.userId),
  ],
);

/** A membership of a restored backup, which grants nothing until the identity provider states it again. */
export const scimHeldMember = pgTable(
  "scim_held_member",
  {
    groupId: uuid("group_id")
      .notNull()
      .references(() => scimGroup.id, { onDelete: "cascade" }),
    userId: uuid("user_id")
      .notNull()
      .references(() => scimUser.id, { onDelete: "cascade" }),
  },
  (table) => [
    primaryKey({ columns: [table.groupId, table.userId] }),
    index("scim_held_member_user").on(table.userId),
  ],
);
