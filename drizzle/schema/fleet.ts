import { sql } from "drizzle-orm";
import { bigint, boolean, index, pgTable, text, uniqueIndex, uuid } from "drizzle-orm/pg-core";
import type { Drift } from "../../proto/fleet-health/vocabulary.ts";
import { certificate, collectorIdentity } from "./certificate.ts";
import { byteText, moment } from "./columns.ts";

/** What a collector says of its renewal. */
export type RenewalStatus = "not_configured" | "ok" | "due" | "retrying" | "failed";

/** The newest heartbeat of an identity, and what it takes from the one before. */
export const collectorHealth = pgTable("collector_health", {
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
  /** Since when the heartbeats say so without a break; null while they do not. */
  configInvalidSince: moment("config_invalid_since"),
  queueAtRiskSince: moment("queue_at_risk_since"),
  renewalFailedSince: moment("renewal_failed_since"),
  /** When this version was first heard, after another or none. */
  versionSince: moment("version_since"),
});

/**
 * From when on a row is in trouble by what it holds itself, whatever the thresholds: revoked, expired, about to expire, or by its last
 * heartbeat. An index has it, and most heartbeats leave it as it is.
 */
export const troubledFrom = sql`(case when renewal_failed or config_invalid or queue_at_risk then '-infinity'::timestamptz
  else least(revoked_from, expired_from, expiring_from) end)`;

/**
 * What the health report filters, sorts and counts by: a narrow row for each enrolled collector, which triggers of the database
 * keep equal to the view `fleet_facts`, whoever writes the tables that it is made of. What depends on the time is a moment: the
 * condition holds from then on, `infinity` for never; what has not happened is `-infinity`. No index holds what every heartbeat or
 * envelope changes, so that these updates stay on their page (HOT). Columns of fixed width come first: they are the quick ones.
 */
export const fleetHost = pgTable(
  "fleet_host",
  {
    identityId: uuid("identity_id").primaryKey(),
    /** The certificate last used; the newest while none has been used. */
    certificateId: uuid("certificate_id").notNull(),
    enrolledAt: moment("enrolled_at").notNull(),
    lastHeartbeatAt: moment("last_heartbeat_at").notNull(),
    /** To the second, so that a host that sends all the time changes its row at most once a second. */
    lastEnvelopeAt: moment("last_envelope_at").notNull(),
    certificateNotAfter: moment("certificate_not_after").notNull(),
    revokedFrom: moment("revoked_from").notNull(),
    /** The certificate, and its unused successor if there is one, have expired. */
    expiredFrom: moment("expired_from").notNull(),
    /** Less than a quarter of the lifetime is left, and no successor is alive. */
    expiringFrom: moment("expiring_from").notNull(),
    /** -1 before the first heartbeat. */
    queueBytes: bigint("queue_bytes", { mode: "number" }).notNull(),
    renewalFailed: boolean("renewal_failed").notNull(),
    configInvalid: boolean("config_invalid").notNull(),
    queueAtRisk: boolean("queue_at_risk").notNull(),
    drift: byteText("drift").$type<Drift>().notNull(),
    version: byteText("version").notNull(),
    platform: byteText("platform").notNull(),
    identity: byteText("identity").notNull(),
    deviceId: byteText("device_id").notNull(),
    /** The identity and, where it does not stand in there, the device id; in lower case. */
    search: byteText("search").notNull(),
    /** The successor that nobody has used yet, expired or not. */
    successorId: uuid("successor_id"),
    assignedConfigHash: byteText("assigned_config_hash"),
  },
  (table) => [
    uniqueIndex("fleet_host_identity").on(table.identity),
    index("fleet_host_certificate").on(table.certificateNotAfter, table.identityId),
    index("fleet_host_troubled").on(troubledFrom),
    index("fleet_host_version").on(table.version),
    index("fleet_host_platform").on(table.platform),
  ],
);
