import { sql } from "drizzle-orm";
import { bigint, boolean, index, integer, pgTable, uniqueIndex, uuid } from "drizzle-orm/pg-core";
import type { Drift } from "../../proto/fleet-health/vocabulary.ts";
import { reportedNumbers } from "../../proto/management/reported-numbers.ts";
import { bytea, byteText, counter, timestamp } from "./columns.ts";

/**
 * The time from which a row has a condition that its own columns decide, without thresholds: revoked, expired, about to expire, or
 * reported by its last heartbeat. Indexed; most heartbeats do not change it.
 */
export const troubledFrom = sql`(case when renewal_failed or config_invalid or queue_at_risk then '-infinity'::timestamptz
  else least(revoked_from, expired_from, expiring_from) end)`;

/**
 * The columns that decide states, filters and orders, and the figures of the last status: one narrow row per enrolled collector, which
 * every status changes. Statuses write it alone; triggers (`drizzle/sql/`) copy what else it has from `fleet_host` and `collector_health`.
 * A condition that depends on the time is stored as the timestamp from which it applies: `infinity` for never, `-infinity` for an event
 * that has not happened. No index holds a column that every status or envelope changes, so that these updates stay on their page (HOT).
 * Columns that change together are neighbours, so that the log is short. Those of fixed width come first, as they are faster to read.
 */
export const fleetStatus = pgTable(
  "fleet_status",
  {
    identityId: uuid("identity_id").primaryKey(),
    lastHeartbeatAt: timestamp("last_heartbeat_at").notNull(),
    /** -1 before the first heartbeat, as the limit, the lost records and the number of records. */
    queueBytes: bigint("queue_bytes", { mode: "number" }).notNull(),
    /** At most the largest integer, as the ages. */
    queueRecords: integer("queue_records").notNull(),
    /** -1 for none. */
    queueOldestSeconds: integer("queue_oldest_seconds").notNull(),
    /** Between the last ack and the heartbeat; -1 for none. */
    lastAckSeconds: integer("last_ack_seconds").notNull(),
    labelSetId: integer("label_set_id").notNull(),
    /** To the second, so that a host that sends without a pause changes its row at most once a second. */
    lastEnvelopeAt: timestamp("last_envelope_at").notNull(),
    revokedFrom: timestamp("revoked_from").notNull(),
    expiredFrom: timestamp("expired_from").notNull(),
    expiringFrom: timestamp("expiring_from").notNull(),
    enrolledAt: timestamp("enrolled_at").notNull(),
    renewalFailed: boolean("renewal_failed").notNull(),
    configInvalid: boolean("config_invalid").notNull(),
    queueAtRisk: boolean("queue_at_risk").notNull(),
    forwarderConnected: boolean("forwarder_connected").notNull(),
    /** The last status reports losses since the one before. */
    isLosing: boolean("is_losing").notNull(),
    certificateNotAfter: timestamp("certificate_not_after").notNull(),
    configAssignedAt: timestamp("config_assigned_at").notNull(),
    runningConfigSince: timestamp("running_config_since").notNull(),
    conditionSince: timestamp("condition_since").notNull(),
    versionSince: timestamp("version_since").notNull(),
    recoveredAt: timestamp("recovered_at").notNull(),
    lastAuthFailureAt: timestamp("last_auth_failure_at").notNull(),
    queueBytesMax: bigint("queue_bytes_max", { mode: "number" }).notNull(),
    lostRecords: bigint("lost_records", { mode: "number" }).notNull(),
    /** The first eight bytes of the digest that came with the newest report; 0 for none. */
    reportDigest: bigint("report_digest", { mode: "bigint" }).notNull(),
    /** `fleet_hash_key` of the hashes of `fleet_host`, which filters and counts compare. */
    desiredConfigKey: bigint("desired_config_key", { mode: "bigint" }).notNull(),
    runningConfigKey: bigint("running_config_key", { mode: "bigint" }).notNull(),
    lastKnownGoodConfigKey: bigint("last_known_good_config_key", { mode: "bigint" }).notNull(),
    drift: byteText("drift").$type<Drift>().notNull(),
    version: byteText("version").notNull(),
    platform: byteText("platform").notNull(),
    identity: byteText("identity").notNull(),
    /** The enrollment policy; nil for rows that an earlier version wrote, until the definitions in `drizzle/sql/` are applied. */
    policyId: uuid("policy_id").notNull().default("00000000-0000-0000-0000-000000000000"),
    /** The machine of the core that received the last heartbeat, and the subnet that it came from; empty while they are not known. */
    core: byteText("core").notNull().default(""),
    subnet: byteText("subnet").notNull().default(""),
    /** Of the collector's process; -1 where it reports none. */
    ...Object.fromEntries(
      Object.values(reportedNumbers.process).map(({ column }) => [
        column,
        counter(column).notNull().default(-1),
      ]),
    ),
    /** How often core has seen it start anew. */
    starts: integer("starts").notNull().default(0),
  },
  (table) => [
    uniqueIndex("fleet_status_identity").on(table.identity),
    index("fleet_status_certificate").on(table.certificateNotAfter, table.identityId),
    index("fleet_status_troubled").on(troubledFrom),
    index("fleet_status_version").on(table.version),
    index("fleet_status_platform").on(table.platform),
    index("fleet_status_label_set").on(table.labelSetId),
  ],
);

/**
 * The names of a host, the text that searches read, and its hashes. For a core of the previous version it also has
 * the columns of `fleet_status` as of the last change of the report. Triggers (`drizzle/sql/`) keep it equal to the view
 * `fleet_facts`, except for the last envelope, which only `fleet_status` follows.
 */
export const fleetHost = pgTable(
  "fleet_host",
  {
    identityId: uuid("identity_id").primaryKey(),
    /** The certificate used last; the newest one while none has been used. */
    certificateId: uuid("certificate_id").notNull(),
    enrolledAt: timestamp("enrolled_at").notNull(),
    lastHeartbeatAt: timestamp("last_heartbeat_at").notNull(),
    /** To the second, so that a host that sends without a pause changes its row at most once a second. */
    lastEnvelopeAt: timestamp("last_envelope_at").notNull(),
    certificateNotAfter: timestamp("certificate_not_after").notNull(),
    revokedFrom: timestamp("revoked_from").notNull(),
    /** When the certificate and its unused successor, if any, have both expired. */
    expiredFrom: timestamp("expired_from").notNull(),
    /** When less than a quarter of the lifetime is left and no successor is valid. */
    expiringFrom: timestamp("expiring_from").notNull(),
    /** When core assigned the desired config; never for one that the heartbeat alone reports. */
    configAssignedAt: timestamp("config_assigned_at").notNull(),
    /** Time of the first heartbeat with the current running config. */
    runningConfigSince: timestamp("running_config_since").notNull(),
    /** Since when the row is revoked, else reports the first by precedence of the flags below; `-infinity` without one of them. */
    conditionSince: timestamp("condition_since").notNull(),
    /** Time of the first heartbeat with the current version; of the enrollment before the first heartbeat. */
    versionSince: timestamp("version_since").notNull(),
    /** When a heartbeat or a late certificate last ended a condition; never for `-infinity`. */
    recoveredAt: timestamp("recovered_at").notNull(),
    lastAuthFailureAt: timestamp("last_auth_failure_at").notNull(),
    /** -1 before the first heartbeat, as the limit and the lost records. */
    queueBytes: bigint("queue_bytes", { mode: "number" }).notNull(),
    queueBytesMax: bigint("queue_bytes_max", { mode: "number" }).notNull(),
    /** Records that the collector dropped or core rejected (dead letters), in all. */
    lostRecords: bigint("lost_records", { mode: "number" }).notNull(),
    /** The labels of the host, as a row of `label_set`. */
    labelSetId: integer("label_set_id").notNull(),
    renewalFailed: boolean("renewal_failed").notNull(),
    configInvalid: boolean("config_invalid").notNull(),
    queueAtRisk: boolean("queue_at_risk").notNull(),
    /** As the last heartbeat reports it; false before the first. */
    forwarderConnected: boolean("forwarder_connected").notNull(),
    drift: byteText("drift").$type<Drift>().notNull(),
    version: byteText("version").notNull(),
    platform: byteText("platform").notNull(),
    identity: byteText("identity").notNull(),
    deviceId: byteText("device_id").notNull(),
    /** Empty when it is not known. */
    hostname: byteText("hostname").notNull(),
    /** The identity and, unless contained, the device id and the hostname, in lower case. */
    search: byteText("search").notNull(),
    /** The unused successor, expired or not. */
    successorId: uuid("successor_id"),
    /**
     * The hash of the assigned config, else of the one that the heartbeat reports as desired. Empty, as the other hashes, when it is not
     * known. Bytes, half the size of the text, and last: no other column is read through them.
     */
    desiredConfig: bytea("desired_config").notNull(),
    runningConfig: bytea("running_config").notNull(),
    lastKnownGoodConfig: bytea("last_known_good_config").notNull(),
  },
  (table) => [
    uniqueIndex("fleet_host_identity").on(table.identity),
    index("fleet_host_certificate").on(table.certificateNotAfter, table.identityId),
    index("fleet_host_troubled").on(troubledFrom),
    index("fleet_host_version").on(table.version),
    index("fleet_host_platform").on(table.platform),
    index("fleet_host_label_set").on(table.labelSetId),
    index("fleet_host_device").on(table.deviceId),
    index("fleet_host_hostname").on(table.hostname),
  ],
);
