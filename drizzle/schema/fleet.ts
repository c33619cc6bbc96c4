import { bigint, boolean, index, pgTable, text, uuid } from "drizzle-orm/pg-core";
import { certificate, collectorIdentity } from "./certificate.ts";
import { moment } from "./columns.ts";

/** What a collector says of its renewal. */
export type RenewalStatus = "not_configured" | "ok" | "due" | "retrying" | "failed";

/** The newest heartbeat of an identity, and what it takes from the one before. */
export const collectorHealth = pgTable(
  "collector_health",
  {
    identityId: uuid("identity_id")
      .primaryKey()
      .references(() => collectorIdentity.id),
    certificateId: uuid("certificate_id")
      .notNull()
      .references(() => certificate.id),
    lastHeartbeatAt: moment("last_heartbeat_at").notNull(),
    bootId: text("boot_id").notNull(),
    /** The boot id before the present one, and when it was last heard: two that alternate are a clone. */
    previousBootId: text("previous_boot_id"),
    previousBootAt: moment("previous_boot_at"),
    collectorVersion: text("collector_version").notNull(),
    collectorCommit: text("collector_commit").notNull(),
    hostname: text("hostname").notNull(),
    platform: text("platform").notNull(),
    startedAt: moment("started_at").notNull(),
    configValid: boolean("config_valid").notNull(),
    configErrors: text("config_errors").array().notNull(),
    runningConfigHash: text("running_config_hash"),
    desiredConfigHash: text("desired_config_hash"),
    lastKnownGoodConfigHash: text("last_known_good_config_hash"),
    queueRecords: bigint("queue_records", { mode: "number" }).notNull(),
    queueBytes: bigint("queue_bytes", { mode: "number" }).notNull(),
    queueBytesMax: bigint("queue_bytes_max", { mode: "number" }).notNull(),
    queueOldestRecordAgeSeconds: bigint("queue_oldest_record_age_seconds", { mode: "number" }),
    droppedRecordsTotal: bigint("dropped_records_total", { mode: "number" }).notNull(),
    /** Records were dropped since the previous heartbeat. */
    droppedSincePrevious: boolean("dropped_since_previous").notNull(),
    queueAtRisk: boolean("queue_at_risk").notNull(),
    forwarderConnected: boolean("forwarder_connected").notNull(),
    forwarderLastAckAt: moment("forwarder_last_ack_at"),
    forwarderLastError: text("forwarder_last_error"),
    renewalStatus: text("renewal_status").$type<RenewalStatus>().notNull(),
    renewalLastAttemptAt: moment("renewal_last_attempt_at"),
    renewalNextAttemptAt: moment("renewal_next_attempt_at"),
    renewalLastError: text("renewal_last_error"),
  },
  (table) => [index("collector_health_heartbeat").on(table.lastHeartbeatAt, table.identityId)],
);
