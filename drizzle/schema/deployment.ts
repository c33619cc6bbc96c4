import { sql } from "drizzle-orm";
import { boolean, check, pgTable, uuid } from "drizzle-orm/pg-core";
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
