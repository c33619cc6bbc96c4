import { sql } from "drizzle-orm";
import {
  boolean,
  check,
  index,
  integer,
  primaryKey,
  text,
  unique,
  uniqueIndex,
  uuid,
} from "drizzle-orm/pg-core";
import type { Scope } from "../../proto/operator/scopes.ts";
import { table, timestamp } from "./columns.ts";

/**
 * The status of a person in the directory. Only `active` may sign in or call core. `held`: active in a restored backup, which nobody has
 * confirmed yet.
 */
export type PersonStatus = "active" | "held" | "suspended" | "archived" | "unverified" | "absent";

/** A person of the directory. */
export const person = table(
  "person",
  {
    userId: uuid().primaryKey(),
    primaryEmail: text().notNull(),
    displayName: text().notNull().default(""),
    status: text().$type<PersonStatus>().notNull(),
    scopes: text().array().$type<Scope[]>().notNull(),
    /** Time of the newest snapshot that agrees with this row. */
    syncedAt: timestamp().notNull(),
    /** Consecutive snapshots that lack this active person, or have them outside the domain, while the removal is held; else 0. */
    missedSyncs: integer().notNull().default(0),
  },
  (columns) => [index("person_email").on(columns.primaryEmail)],
);

/** The subject of a person at the identity provider, within one deployment. */
export const authenticationIdentity = table(
  "authentication_identity",
  {
    tenantId: uuid().notNull(),
    subject: text().notNull(),
    userId: uuid()
      .notNull()
      .references(() => person.userId),
  },
  (columns) => [
    primaryKey({ columns: [columns.tenantId, columns.subject] }),
    uniqueIndex("authentication_identity_person").on(columns.userId),
  ],
);

/** A subject of an issuer that has exchanged a token: the actor of what it does. Its scopes are in the issuers' file. */
export const workload = table(
  "workload",
  {
    id: uuid().primaryKey(),
    issuer: text().notNull(),
    subject: text().notNull(),
    firstSeenAt: timestamp().notNull(),
    lastSeenAt: timestamp().notNull(),
  },
  (columns) => [unique("workload_subject").on(columns.issuer, columns.subject)],
);

/**
 * The result of a directory sync: `synced`, the whole snapshot was written; `held`, all except a mass removal of people; `refused`, the
 * snapshot was implausible; `failed`, there was no snapshot.
 */
export type DirectoryOutcome = "synced" | "held" | "refused" | "failed";

/** One row: the result of the newest sync by any core. A transaction that writes a snapshot locks it. */
export const directorySync = table(
  "directory_sync",
  {
    singleton: boolean().primaryKey().default(true),
    /** Number of finished syncs. A sync during which another one finished does not write. */
    syncs: integer().notNull(),
    finishedAt: timestamp().notNull(),
    outcome: text().$type<DirectoryOutcome>().notNull(),
    reasonCode: text(),
    /** When a snapshot was last written; null if never. */
    syncedAt: timestamp(),
    /** When an identity provider last pushed a change over SCIM; null if never. */
    pushedAt: timestamp(),
    /** Consecutive syncs that wrote nothing. */
    failures: integer().notNull(),
    /** Role groups that the newest snapshot lacks. */
    missingGroups: text().array().notNull(),
  },
  (columns) => [check("directory_sync_singleton", sql`${columns.singleton}`)],
);
