import { sql } from "drizzle-orm";
import { index, jsonb } from "drizzle-orm/pg-core";
import type { Labels } from "#proto/labels.ts";
import { bytea, byteText, integer, nullable, singleRowTable, table, timestamp } from "./columns.ts";

/** One row: the inventory of expected hosts as it was put last. Without it nothing is expected. */
export const inventory = singleRowTable("inventory", {
  /** Of its hosts: the ETag. */
  sha256: bytea(),
  hosts: integer(),
  updatedAt: timestamp(),
});

/** The hosts of the inventory, and those that it had and the fleet still has. */
export const inventoryHost = table(
  "inventory_host",
  {
    /** The device id of a host, or its identity. */
    name: byteText().primaryKey(),
    owner: nullable.text(),
    labels: jsonb().$type<Labels>().notNull(),
    /** When the inventory had it no longer; null while it is expected. */
    removedAt: nullable.timestamp(),
  },
  (columns) => [
    index("inventory_host_removed").on(columns.name).where(sql`${columns.removedAt} is not null`),
  ],
);
