import { sql } from "drizzle-orm";
import { index } from "drizzle-orm/pg-core";
import type { renewalStatuses } from "#proto/management/heartbeat.ts";
import {
  everyNumber,
  type NumberColumn,
  type ReportedNumber,
  reportedNumbers,
} from "#proto/management/reported-numbers.ts";
import { boolean, counter, integer, nullable, table, text, timestamp, uuid } from "./columns.ts";
import { certificate, collectorIdentity } from "./enrollment.ts";

/** The renewal status that a collector reports. */
export type RenewalStatus = (typeof renewalStatuses)[number];

/** With a default where a previous core on this schema does not write the column; null while the number is not known. */
const numberColumn = ({ column, absent }: ReportedNumber): ReturnType<typeof nullable.counter> => {
  if (absent === "zero") return counter(column).default(0);
  const isUnknown = absent !== undefined || column in reportedNumbers.process;
  return isUnknown ? nullable.counter(column) : counter(column);
};

/** The newest heartbeat of an identity, and what core derives from it and the one before. */
export const collectorHealth = table(
  "collector_health",
  {
    identityId: uuid()
      .primaryKey()
      .references(() => collectorIdentity.id),
    certificateId: uuid().references(() => certificate.id),
    lastHeartbeatAt: timestamp(),
    bootId: text(),
    /** The boot id before the current one, and the time of its last heartbeat: two that alternate are a clone. */
    previousBootId: nullable.text(),
    previousBootAt: nullable.timestamp(),
    collectorVersion: text(),
    collectorCommit: text(),
    /** The name that an agent of another kind has for itself. */
    agentName: nullable.text(),
    hostname: text(),
    platform: text(),
    startedAt: timestamp(),
    configValid: boolean(),
    configErrors: text().array().notNull(),
    runningConfigHash: nullable.text(),
    desiredConfigHash: nullable.text(),
    lastKnownGoodConfigHash: nullable.text(),
    /** Whether the host applies the config that core assigns; null while its collector does not report it. */
    applyDesiredConfig: nullable.boolean(),
    ...(Object.fromEntries(everyNumber.map((each) => [each.column, numberColumn(each)])) as Record<
      NumberColumn,
      ReturnType<typeof counter>
    >),
    /** The first eight bytes of the digest that came with this report; null for none. */
    reportDigest: nullable.bigint(),
    /** The heartbeat that the digest came with. A previous core on this schema writes neither. */
    digestReportedAt: nullable.timestamp(),
    /** How often another process has reported than the one before. */
    starts: integer().default(0),
    /** The machine of the core that received the report, and the subnet that it came from. A previous core on this schema writes neither. */
    core: nullable.text(),
    subnet: nullable.text(),
    /** Records were dropped or became dead letters since the previous heartbeat. */
    droppedSincePrevious: boolean(),
    queueAtRisk: boolean(),
    /** Why parts of the collector do not do their work, a sentence each. A previous core on this schema does not write them. */
    reportedConditions: text().array().notNull().default([]),
    /** The numbers of its CA bundles, null without one; and whether its config takes none, null while its collector reports nothing of them. */
    ingestCaBundle: nullable.counter(),
    managementCaBundle: nullable.counter(),
    caPinned: nullable.boolean(),
    forwarderConnected: boolean(),
    forwarderLastAckAt: nullable.timestamp(),
    forwarderLastError: nullable.text(),
    renewalStatus: text().$type<RenewalStatus>(),
    renewalLastAttemptAt: nullable.timestamp(),
    renewalNextAttemptAt: nullable.timestamp(),
    renewalLastError: nullable.text(),
    /** Start of the unbroken series of heartbeats that report the condition; null while the newest does not. */
    configInvalidSince: nullable.timestamp(),
    queueAtRiskSince: nullable.timestamp(),
    renewalFailedSince: nullable.timestamp(),
    /** Time of the first heartbeat with the current version. */
    versionSince: nullable.timestamp(),
    /** Time of the first heartbeat with the current running config. */
    runningConfigSince: nullable.timestamp(),
    /** Time of the last heartbeat that ended a condition: one that the heartbeat before reported, or `stale`. */
    recoveredAt: nullable.timestamp(),
  },
  (columns) => [
    // Core looks for numbers above its newest one, of which there are none.
    index("collector_health_ingest_ca_bundle")
      .on(columns.ingestCaBundle)
      .where(sql`${columns.ingestCaBundle} is not null`),
    index("collector_health_management_ca_bundle")
      .on(columns.managementCaBundle)
      .where(sql`${columns.managementCaBundle} is not null`),
  ],
);
