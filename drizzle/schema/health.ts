import { bigint, boolean, integer, text, uuid } from "drizzle-orm/pg-core";
import {
  everyNumber,
  type NumberColumn,
  type ReportedNumber,
} from "#proto/management/reported-numbers.ts";
import { counter, table, timestamp } from "./columns.ts";
import { certificate, collectorIdentity } from "./enrollment.ts";

/** The renewal status that a collector reports. */
export type RenewalStatus = "not_configured" | "ok" | "due" | "retrying" | "failed";

/** With a default where a previous core on this schema does not write the column; null while the number is not known. */
const numberColumn = ({ column, absent, field }: ReportedNumber): ReturnType<typeof counter> => {
  if (absent === "zero") return counter(column).notNull().default(0);
  return absent === undefined && field === undefined ? counter(column).notNull() : counter(column);
};

/** The newest heartbeat of an identity, and what core derives from it and the one before. */
export const collectorHealth = table("collector_health", {
  identityId: uuid()
    .primaryKey()
    .references(() => collectorIdentity.id),
  certificateId: uuid()
    .notNull()
    .references(() => certificate.id),
  lastHeartbeatAt: timestamp().notNull(),
  bootId: text().notNull(),
  /** The boot id before the current one, and the time of its last heartbeat: two that alternate are a clone. */
  previousBootId: text(),
  previousBootAt: timestamp(),
  collectorVersion: text().notNull(),
  collectorCommit: text().notNull(),
  hostname: text().notNull(),
  platform: text().notNull(),
  startedAt: timestamp().notNull(),
  configValid: boolean().notNull(),
  configErrors: text().array().notNull(),
  runningConfigHash: text(),
  desiredConfigHash: text(),
  lastKnownGoodConfigHash: text(),
  /** Whether the host applies the config that core assigns; null while its collector does not report it. */
  applyDesiredConfig: boolean(),
  ...(Object.fromEntries(everyNumber.map((each) => [each.column, numberColumn(each)])) as Record<
    NumberColumn,
    ReturnType<typeof counter>
  >),
  /** The first eight bytes of the digest that came with this report; null for none. */
  reportDigest: bigint({ mode: "bigint" }),
  /** The heartbeat that the digest came with. A previous core on this schema writes neither. */
  digestReportedAt: timestamp(),
  /** How often another process has reported than the one before. */
  starts: integer().notNull().default(0),
  /** The machine of the core that received the report, and the subnet that it came from. A previous core on this schema writes neither. */
  core: text(),
  subnet: text(),
  /** Records were dropped or became dead letters since the previous heartbeat. */
  droppedSincePrevious: boolean().notNull(),
  queueAtRisk: boolean().notNull(),
  /** Why parts of the collector do not do their work, a sentence each. A previous core on this schema does not write them. */
  reportedConditions: text().array().notNull().default([]),
  forwarderConnected: boolean().notNull(),
  forwarderLastAckAt: timestamp(),
  forwarderLastError: text(),
  renewalStatus: text().$type<RenewalStatus>().notNull(),
  renewalLastAttemptAt: timestamp(),
  renewalNextAttemptAt: timestamp(),
  renewalLastError: text(),
  /** Start of the unbroken series of heartbeats that report the condition; null while the newest does not. */
  configInvalidSince: timestamp(),
  queueAtRiskSince: timestamp(),
  renewalFailedSince: timestamp(),
  /** Time of the first heartbeat with the current version. */
  versionSince: timestamp(),
  /** Time of the first heartbeat with the current running config. */
  runningConfigSince: timestamp(),
  /** Time of the last heartbeat that ended a condition: one that the heartbeat before reported, or `stale`. */
  recoveredAt: timestamp(),
});
