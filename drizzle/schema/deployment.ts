import { sql } from "drizzle-orm";
import { bigint, boolean, check, integer, pgTable, text, uuid } from "drizzle-orm/pg-core";
import { timestamp } from "./columns.ts";

/** One row: the deployment that this database belongs to. A core with another SVC_TENANT_ID refuses to start. */
export const deployment = pgTable(
  "deployment",
  {
    singleton: boolean("singleton").primaryKey().default(true),
    tenantId: uuid("tenant_id").notNull(),
    createdAt: timestamp("created_at").notNull(),
  },
  (table) => [check("deployment_singleton", sql`${table.singleton}`)],
);

/**
 * One row: where the database was when a core last used it, so that the next one notices that it is a restored backup. A migration that
 * rewrites this table would look like a loaded dump.
 */
export const databaseLineage = pgTable(
  "database_lineage",
  {
    singleton: boolean("singleton").primaryKey().default(true),
    /** Number of restores that core has noticed. */
    epoch: integer("epoch").notNull(),
    /** The transaction that wrote this row. A dump restores the number, but in a transaction of its own. */
    writtenXid: bigint("written_xid", { mode: "bigint" }).notNull(),
    /** Null where core's role may not read it. */
    systemIdentifier: text("system_identifier"),
    databaseOid: text("database_oid").notNull(),
    /** Null where core's role may not read it. */
    timeline: integer("timeline"),
    /** When core last noticed a restore, by core's clock, and how; null if never. */
    restoredAt: timestamp("restored_at"),
    reason: text("reason"),
  },
  (table) => [check("database_lineage_singleton", sql`${table.singleton}`)],
);

/** A time in which one core could receive, by the database's clock. The core extends its row every few seconds while it is ready. */
export const coreSession = pgTable("core_session", {
  id: uuid("id").primaryKey(),
  startedAt: timestamp("started_at").notNull(),
  /** Until when it could receive, as far as it has written. */
  receivedUntil: timestamp("received_until").notNull(),
  /** It reads `fleet_status`; null of a core of a previous version, which reads the columns of `fleet_host` alone. */
  readsStatus: boolean("reads_status"),
  /** It reads digests of stored bytes; null of a core of a previous version, which would call such a block damaged. */
  readsStoredDigests: boolean("reads_stored_digests"),
});

/** A time in which no core could receive, or that the database's clock skipped. It counts against no host. */
export const coreOutage = pgTable("core_outage", {
  id: uuid("id").primaryKey(),
  beganAt: timestamp("began_at").notNull(),
  endedAt: timestamp("ended_at").notNull(),
});
