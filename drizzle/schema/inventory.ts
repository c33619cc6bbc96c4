import { sql } from "drizzle-orm";
import { boolean, check, index, integer, jsonb, pgTable, text } from "drizzle-orm/pg-core";
import type { Labels } from "../../proto/labels.ts";
import { bytea, byteText, timestamp } from "./columns.ts";

/** One row: the inventory of expected hosts as it was put last. Without it nothing is expected. */
export const inventory = pgTable(
  "inventory",
  {
    singleton: boolean("singleton").primaryKey().default(true),
    /** Of its hosts: the ETag. */
    sha256: bytea("sha256").notNull(),
    hosts: integer("hosts").notNull(),
    updatedAt: timestamp("updated_at").notNull(),
  },
  (table) => [check("inventory_singleton", sql`${table.singleton}`)],
);

/** The hosts of the inventory, and those that it had and the fleet still has. */
export const inventoryHost = pgTable(
  "inventory_host",
  {
    /** The device id of a host, or its identity. */
    name: byteText("name").primaryKey(),
    owner: text("owner"),
    labels: jsonb("labels").$type<Labels>().notNull(),
    /** When the inventory had it no longer; null while it is expected. */
    removedAt: timestamp("removed_at"),
  },
  (table) => [
    index("inventory_host_removed").on(table.name).where(sql`${table.removedAt} is not null`),
  ],
);
