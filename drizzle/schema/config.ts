import { sql } from "drizzle-orm";
import { index, uniqueIndex } from "drizzle-orm/pg-core";
import type { AgentKind } from "#proto/values.ts";
import { integer, nullable, table, text, timestamp, uuid } from "./columns.ts";
import { collectorIdentity } from "./enrollment.ts";

/** A collector config that an admin published, byte for byte. */
export const collectorConfig = table(
  "collector_config",
  {
    id: uuid().primaryKey(),
    name: nullable.text(),
    /** The agents that it is for. */
    kind: text().$type<AgentKind>().default("svc-collector"),
    yaml: text(),
    configHash: text(),
    sizeBytes: integer(),
    createdAt: timestamp(),
    createdBy: uuid(),
  },
  (columns) => [index("collector_config_hash").on(columns.configHash, columns.createdAt)],
);

/** The desired configs of an identity: the current one (`ended_at` null) and the earlier ones. */
export const configAssignment = table(
  "config_assignment",
  {
    id: uuid().primaryKey(),
    identityId: uuid().references(() => collectorIdentity.id),
    configId: uuid().references(() => collectorConfig.id),
    assignedAt: timestamp(),
    assignedBy: uuid(),
    endedAt: nullable.timestamp(),
  },
  (columns) => [
    uniqueIndex("config_assignment_current")
      .on(columns.identityId)
      .where(sql`${columns.endedAt} is null`),
    index("config_assignment_identity").on(columns.identityId, columns.assignedAt),
    index("config_assignment_config").on(columns.configId, columns.id),
  ],
);
