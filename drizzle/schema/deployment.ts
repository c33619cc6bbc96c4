import { sql } from "drizzle-orm";
import { boolean, check, pgTable, uuid } from "drizzle-orm/pg-core";
import { moment } from "./columns.ts";

/** One row: which deployment this database belongs to. A core with another SVC_TENANT_ID refuses to start. */
export const deployment = pgTable(
  "deployment",
  {
    singleton: boolean("singleton").primaryKey().default(true),
    tenantId: uuid("tenant_id").notNull(),
    createdAt: moment("created_at").notNull(),
  },
  (table) => [check("deployment_singleton", sql`${table.singleton}`)],
);
