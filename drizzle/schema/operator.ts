import { sql } from "drizzle-orm";
import {
  boolean,
  check,
  index,
  integer,
  pgTable,
  primaryKey,
  text,
  unique,
  uniqueIndex,
  uuid,
} from "drizzle-orm/pg-core";
import type { Scope } from "../../proto/operator/scopes.ts";
import { timestamp } from "./columns.ts";

/**
 * The status of a person in the directory. Only `active` may sign in or call core. `held`: active in a restored backup, which nobody has
 * confirmed yet.
 */
export type PersonStatus = "active" | "held" | "suspended" | "archived" | "unverified" | "absent";

/** A person of the directory. */
export const person = pgTable(
  "person",
  {
    userId: uuid("user_id").primaryKey(),
    primaryEmail: text("primary_email").notNull(),
    displayName: text("display_name").notNull().default(""),
    status: text("status").$type<PersonStatus>().notNull(),
    scopes: text("scopes").array().$type<Scope[]>().notNull(),
    /** Time of the newest snapshot that agrees with this row. */
    syncedAt: timestamp("synced_at").notNull(),
    /** Consecutive snapshots that lack this active person, or have them outside the domain, while the removal is held; else 0. */
    missedSyncs: integer("missed_syncs").notNull().default(0),
  },
  (table) => [index("person_email").on(table.primaryEmail)],
);

/** The subject of a person at the identity provider, within one deployment. */
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

/** A subject of an issuer that has exchanged a token: the actor of what it does. Its scopes are in the issuers' file. */
export const workload = pgTable(
  "workload",
  {
    id: uuid("id").primaryKey(),
    issuer: text("issuer").notNull(),
    subject: text("subject").notNull(),
    firstSeenAt: timestamp("first_seen_at").notNull(),
    lastSeenAt: timestamp("last_seen_at").notNull(),
  },
  (table) => [unique("workload_subject").on(table.issuer, table.subject)],
);

/**
 * The result of a directory sync: `synced`, the whole snapshot was written; `held`, all except a mass removal of people; `refused`, the
 * snapshot was implausible; `failed`, there was no snapshot.
 */
export type DirectoryOutcome = "synced" | "held" | "refused" | "failed";

/** One row: the result of the newest sync by any core. A transaction that writes a snapshot locks it. */
export const directorySync = pgTable(
  "directory_sync",
  {
    singleton: boolean("singleton").primaryKey().default(true),
    /** Number of finished syncs. A sync during which another one finished does not write. */
    syncs: integer("syncs").notNull(),
    finishedAt: timestamp("finished_at").notNull(),
    outcome: text("outcome").$type<DirectoryOutcome>().notNull(),
    reasonCode: text("reason_code"),
    /** When a snapshot was last written; null if never. */
    syncedAt: timestamp("synced_at"),
    /** When an identity provider last pushed a change over SCIM; null if never. */
    pushedAt: timestamp("pushed_at"),
    /** Consecutive syncs that wrote nothing. */
    failures: integer("failures").notNull(),
    /** Role groups that the newest snapshot lacks. */
    missingGroups: text("missing_groups").array().notNull(),
  },
  (table) => [check("directory_sync_singleton", sql`${table.singleton}`)],
);
