import { index, pgTable, primaryKey, text, uuid } from "drizzle-orm/pg-core";
import { moment } from "./columns.ts";

/** What the directory says of a person. Only `active` signs in or calls core. */
export type PersonStatus = "active" | "suspended" | "archived" | "unverified" | "absent";

/** What a person may do, derived from directory groups. */
export type Scope = "read" | "audit" | "admin";

/** A person of the directory. */
export const person = pgTable(
  "person",
  {
    userId: uuid("user_id").primaryKey(),
    primaryEmail: text("primary_email").notNull(),
    displayName: text("display_name").notNull().default(""),
    status: text("status").$type<PersonStatus>().notNull(),
    scopes: text("scopes").array().$type<Scope[]>().notNull(),
    syncedAt: moment("synced_at").notNull(),
  },
  (table) => [index("person_email").on(table.primaryEmail)],
);

/** The identity provider's subject of a person, within one deployment. */
export const authenticationIdentity = pgTable(
  "authentication_identity",
  {
    tenantId: uuid("tenant_id").notNull(),
    subject: text("subject").notNull(),
    userId: uuid("user_id")
      .notNull()
      .references(() => person.userId),
  },
  (table) => [primaryKey({ columns: [table.tenantId, table.subject] })],
);
