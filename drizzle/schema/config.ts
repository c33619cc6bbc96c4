import { sql } from "drizzle-orm";
import { index, integer, pgTable, text, uniqueIndex, uuid } from "drizzle-orm/pg-core";
import { collectorIdentity } from "./certificate.ts";
import { timestamp } from "./columns.ts";

/** A collector config that an admin published, byte for byte. */
export const collectorConfig = pgTable(
  "collector_config",
  {
    id: uuid("id").primaryKey(),
    name: text("name"),
    yaml: text("yaml").notNull(),
    configHash: text("config_hash").notNull(),
    sizeBytes: integer("size_bytes").notNull(),
    createdAt: timestamp("created_at").notNull(),
    createdBy: uuid("created_by").notNull(),
  },
  (table) => [index("collector_config_hash").on(table.configHash, table.createdAt)],
);

/** The desired configs of an identity: the current one (`ended_at` null) and the earlier ones. */
export const configAssignment = pgTable(
  "config_assignment",
  {
    id: uuid("id").primaryKey(),
    identityId: uuid("identity_id")
      .notNull()
      .references(() => collectorIdentity.id),
    configId: uuid("config_id")
      .notNull()
      .references(() => collectorConfig.id),
    assignedAt: timestamp("assigned_at").notNull(),
    assignedBy: uuid("assigned_by").notNull(),
    endedAt: timestamp("ended_at"),
  },
  (table) => [
    uniqueIndex("config_assignment_current")
      .on(table.identityId)
      .where(sql`${table.endedAt} is null`),
    index("config_assignment_identity").on(table.identityId, table.assignedAt),
    index("config_assignment_config").on(table.configId, table.id),
  ],
);
