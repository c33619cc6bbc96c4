import { sql } from "drizzle-orm";
import { boolean, check, index, integer, pgTable, primaryKey, text, uniqueIndex, uuid } from "drizzle-orm/pg-core";
import type { Scope } from "../../proto/operator/scopes.ts";
import { moment } from "./columns.ts";

/** What the directory says of a person. Only `active` signs in or calls core. */
export type PersonStatus = "active" | "suspended" | "archived" | "unverified" | "absent";

/** A person of the directory. */
export const person = pgTable(
  "person",
  {
    userId: uuid("user_id").primaryKey(),
    primaryEmail: text("primary_email").notNull(),
    displayName: text("display_name").notNull().default(""),
    status: text("status").$type<PersonStatus>().notNull(),
    scopes: text("scopes").array().$type<Scope[]>().notNull(),
    /** The newest snapshot that this row agrees with. */
    syncedAt: moment("synced_at").notNull(),
    /** Snapshots in a row without this person, or not in the domain, while they are held; 0 for everybody else. */
    missedSyncs: integer("missed_syncs").notNull().default(0),
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
  (table) => [
    primaryKey({ columns: [table.tenantId, table.subject] }),
    uniqueIndex("authentication_identity_person").on(table.userId),
  ],
);

/**
 * How a sync of the directory ended: `synced`, all of the snapshot written; `held`, all but a mass of lost people; `refused`, the snapshot
 * was read and not believed; `failed`, there was none to believe.
 */
export type DirectoryOutcome = "synced" | "held" | "refused" | "failed";

/** One row: how the newest sync ended, whichever core ran it. Locked by whoever writes a snapshot. */
export const directorySync = pgTable(
  "directory_sync",
  {
    singleton: boolean("singleton").primaryKey().default(true),
    /** Syncs that ended. One that began before another ended does not write. */
    syncs: integer("syncs").notNull(),
    finishedAt: moment("finished_at").notNull(),
    outcome: text("outcome").$type<DirectoryOutcome>().notNull(),
    reasonCode: text("reason_code"),
    /** When a snapshot was last written; null when none has been. */
    syncedAt: moment("synced_at"),
    /** Syncs in a row that wrote nothing. */
    failures: integer("failures").notNull(),
    /** Role groups that the newest snapshot did not find. */
    missingGroups: text("missing_groups").array().notNull(),
  },
  (table) => [check("directory_sync_singleton", sql`${table.singleton}`)],
);
