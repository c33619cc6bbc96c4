import { sql } from "drizzle-orm";
import { bigint, boolean, index, integer, pgTable, uniqueIndex, uuid } from "drizzle-orm/pg-core";
import type { Drift } from "../../proto/fleet-health/vocabulary.ts";
import { bytea, byteText, timestamp } from "./columns.ts";

/**
 * The time from which a row has a condition that its own columns decide, without thresholds: revoked, expired, about to expire, or
 * reported by its last heartbeat. Indexed; most heartbeats do not change it.
 */
export const troubledFrom = sql`(case when renewal_failed or config_invalid or queue_at_risk then '-infinity'::timestamptz
  else least(revoked_from, expired_from, expiring_from) end)`;

/**
 * The columns that the health report filters, sorts and counts by: one narrow row per enrolled collector. Triggers (`drizzle/sql/`) keep
 * it equal to the view `fleet_facts` on any write to the underlying tables. A condition that depends on the time is stored as the
 * timestamp from which it applies: `infinity` for never, `-infinity` for an event that has not happened. No index holds a column that
 * every heartbeat or envelope changes, so that these updates stay on their page (HOT). Columns of fixed width come first: they are
 * faster to read.
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
  ],
);
