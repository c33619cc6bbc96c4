import { sql } from "drizzle-orm";
import { bigint, boolean, check, integer, text, uuid } from "drizzle-orm/pg-core";
import { table, timestamp } from "./columns.ts";

/** One row: the deployment that this database belongs to. A core with another SVC_TENANT_ID refuses to start. */
export const deployment = table(
  "deployment",
  {
    singleton: boolean().primaryKey().default(true),
    tenantId: uuid().notNull(),
    createdAt: timestamp().notNull(),
  },
  (columns) => [check("deployment_singleton", sql`${columns.singleton}`)],
);

/**
 * One row: where the database was when a core last used it, so that the next one notices that it is a restored backup. A migration that
 * rewrites this table would look like a loaded dump.
 */
export const databaseLineage = table(
  "database_lineage",
  {
    singleton: boolean().primaryKey().default(true),
    /** Number of restores that core has noticed. */
    epoch: integer().notNull(),
    /** The transaction that wrote this row. A dump restores the number, but in a transaction of its own. */
    writtenXid: bigint({ mode: "bigint" }).notNull(),
    /** Null where core's role may not read it. */
    systemIdentifier: text(),
    databaseOid: text().notNull(),
    /** Null where core's role may not read it. */
    timeline: integer(),
    /** When core last noticed a restore, by core's clock, and how; null if never. */
    restoredAt: timestamp(),
    reason: text(),
  },
  (columns) => [check("database_lineage_singleton", sql`${columns.singleton}`)],
);

/** A time in which one core could receive, by the database's clock. The core extends its row every few seconds while it is ready. */
export const coreSession = table("core_session", {
  id: uuid().primaryKey(),
  startedAt: timestamp().notNull(),
  /** Until when it could receive, as far as it has written. */
  receivedUntil: timestamp().notNull(),
  /** It reads `fleet_status`; null of a core of a previous version, which reads the columns of `fleet_host` alone. */
  readsStatus: boolean(),
  /** It reads digests of stored bytes; null of a core of a previous version, which would call such a block damaged. */
  readsStoredDigests: boolean(),
});

/** A time in which no core could receive, or that the database's clock skipped. It counts against no host. */
export const coreOutage = table("core_outage", {
  id: uuid().primaryKey(),
  beganAt: timestamp().notNull(),
  endedAt: timestamp().notNull(),
});
