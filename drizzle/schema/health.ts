import { bigint, boolean, integer, pgTable, text, uuid } from "drizzle-orm/pg-core";
import {
  everyNumber,
  type NumberColumn,
  type ReportedNumber,
} from "../../proto/management/reported-numbers.ts";
import { certificate, collectorIdentity } from "./certificate.ts";
import { counter, timestamp } from "./columns.ts";

/** The renewal status that a collector reports. */
export type RenewalStatus = "not_configured" | "ok" | "due" | "retrying" | "failed";

/** With a default where a previous core on this schema does not write the column; null while the number is not known. */
const numberColumn = ({ column, absent, field }: ReportedNumber): ReturnType<typeof counter> => {
  if (absent === "zero") return counter(column).notNull().default(0);
  return absent === undefined && field === undefined ? counter(column).notNull() : counter(column);
};

/** The newest heartbeat of an identity, and what core derives from it and the one before. */
export const collectorHealth = pgTable("collector_health", {
  identityId: uuid("identity_id")
    .primaryKey()
    .references(() => collectorIdentity.id),
  certificateId: uuid("certificate_id")
    .notNull()
    .references(() => certificate.id),
  lastHeartbeatAt: timestamp("last_heartbeat_at").notNull(),
  bootId: text("boot_id").notNull(),
  /** The boot id before the current one, and the time of its last heartbeat: two that alternate are a clone. */
  previousBootId: text("previous_boot_id"),
  previousBootAt: timestamp("previous_boot_at"),
  collectorVersion: text("collector_version").notNull(),
  collectorCommit: text("collector_commit").notNull(),
  hostname: text("hostname").notNull(),
  platform: text("platform").notNull(),
  startedAt: timestamp("started_at").notNull(),
  configValid: boolean("config_valid").notNull(),
  configErrors: text("config_errors").array().notNull(),
  runningConfigHash: text("running_config_hash"),
  desiredConfigHash: text("desired_config_hash"),
  lastKnownGoodConfigHash: text("last_known_good_config_hash"),
  /** Whether the host applies the config that core assigns; null while its collector does not report it. */
  applyDesiredConfig: boolean("apply_desired_config"),
  ...(Object.fromEntries(everyNumber.map((each) => [each.column, numberColumn(each)])) as Record<
    NumberColumn,
    ReturnType<typeof counter>
  >),
  /** The first eight bytes of the digest that came with this report; null for none. */
  reportDigest: bigint("report_digest", { mode: "bigint" }),
  /** The heartbeat that the digest came with. A previous core on this schema writes neither. */
  digestReportedAt: timestamp("digest_reported_at"),
  /** How often another process has reported than the one before. */
  starts: integer("starts").notNull().default(0),
  /** The machine of the core that received the report, and the subnet that it came from. A previous core on this schema writes neither. */
  core: text("core"),
  subnet: text("subnet"),
  /** Records were dropped or became dead letters since the previous heartbeat. */
  droppedSincePrevious: boolean("dropped_since_previous").notNull(),
  queueAtRisk: boolean("queue_at_risk").notNull(),
  /** Why parts of the collector do not do their work, a sentence each. A previous core on this schema does not write them. */
  reportedConditions: text("reported_conditions").array().notNull().default([]),
  forwarderConnected: boolean("forwarder_connected").notNull(),
  forwarderLastAckAt: timestamp("forwarder_last_ack_at"),
  forwarderLastError: text("forwarder_last_error"),
  renewalStatus: text("renewal_status").$type<RenewalStatus>().notNull(),
  renewalLastAttemptAt: timestamp("renewal_last_attempt_at"),
  renewalNextAttemptAt: timestamp("renewal_next_attempt_at"),
  renewalLastError: text("renewal_last_error"),
  /** Start of the unbroken series of heartbeats that report the condition; null while the newest does not. */
  configInvalidSince: timestamp("config_invalid_since"),
  queueAtRiskSince: timestamp("queue_at_risk_since"),
  renewalFailedSince: timestamp("renewal_failed_since"),
  /** Time of the first heartbeat with the current version. */
  versionSince: timestamp("version_since"),
  /** Time of the first heartbeat with the current running config. */
  runningConfigSince: timestamp("running_config_since"),
  /** Time of the last heartbeat that ended a condition: one that the heartbeat before reported, or `stale`. */
  recoveredAt: timestamp("recovered_at"),
});
