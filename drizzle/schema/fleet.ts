import { sql } from "drizzle-orm";
import { index, uniqueIndex } from "drizzle-orm/pg-core";
import { type Drift, troubles } from "#proto/fleet-health/vocabulary.ts";
import { reportedNumbers } from "#proto/management/reported-numbers.ts";
import type { AgentKind } from "#proto/values.ts";
import {
  bigint,
  boolean,
  byteText,
  counter,
  integer,
  nullable,
  table,
  timestamp,
  uuid,
} from "./columns.ts";
import { hostFacts } from "./fleet-history.ts";

/** The time from which a row has a condition of its own (`troubles`). Indexed; most heartbeats do not change it. */
const troubledFrom =
  sql.raw(`(case when ${troubles.flags.join(" or ")} then '-infinity'::timestamptz
  else least(${troubles.times.join(", ")}) end)`);

/**
 * The columns that decide states, filters and orders, and the figures of the last status: one narrow row per enrolled collector, which
 * every status changes. Statuses write it alone; triggers (`drizzle/sql/`) copy what else it has from `fleet_host` and `collector_health`.
 * A condition that depends on the time is stored as the timestamp from which it applies: `infinity` for never, `-infinity` for an event
 * that has not happened. No index holds a column that every status or envelope changes, so that these updates stay on their page (HOT).
 * Columns that change together are neighbours, so that the log is short. Those of fixed width come first, as they are faster to read.
 */
export const fleetStatus = table(
  "fleet_status",
  {
    identityId: uuid().primaryKey(),
    lastHeartbeatAt: timestamp(),
    /** -1 before the first heartbeat, as the limit, the lost records and the number of records. */
    queueBytes: counter(),
    /** At most the largest integer, as the ages. */
    queueRecords: integer(),
    /** -1 for none. */
    queueOldestSeconds: integer(),
    /** Between the last ack and the heartbeat; -1 for none. */
    lastAckSeconds: integer(),
    labelSetId: integer(),
    /** To the second, so that a host that sends without a pause changes its row at most once a second. */
    lastEnvelopeAt: timestamp(),
    revokedFrom: timestamp(),
    expiredFrom: timestamp(),
    expiringFrom: timestamp(),
    enrolledAt: timestamp(),
    renewalFailed: boolean(),
    configInvalid: boolean(),
    queueAtRisk: boolean(),
    forwarderConnected: boolean(),
    /** The last status reports losses since the one before. */
    isLosing: boolean(),
    certificateNotAfter: timestamp(),
    configAssignedAt: timestamp(),
    runningConfigSince: timestamp(),
    conditionSince: timestamp(),
    versionSince: timestamp(),
    recoveredAt: timestamp(),
    lastAuthFailureAt: timestamp(),
    queueBytesMax: counter(),
    lostRecords: counter(),
    /** The first eight bytes of the digest that came with the newest report; 0 for none. */
    reportDigest: bigint(),
    /** `fleet_hash_key` of the hashes of `fleet_host`, which filters and counts compare. */
    desiredConfigKey: bigint(),
    runningConfigKey: bigint(),
    lastKnownGoodConfigKey: bigint(),
    drift: byteText().$type<Drift>(),
    version: byteText(),
    platform: byteText(),
    identity: byteText(),
    /** The enrollment policy; nil for rows that an earlier version wrote, until the definitions in `drizzle/sql/` are applied. */
    policyId: uuid().default("00000000-0000-0000-0000-000000000000"),
    /** The machine of the core that received the last heartbeat, and the subnet that it came from; empty while they are not known. */
    core: byteText().default(""),
    subnet: byteText().default(""),
    /** Of the collector's process; -1 where it reports none. */
    ...Object.fromEntries(
      Object.values(reportedNumbers.process).map(({ column }) => [
        column,
        counter(column).default(-1),
      ]),
    ),
    /** How often core has seen it start anew. */
    starts: integer().default(0),
    agent: byteText().$type<AgentKind>().default("svc-collector"),
  },
  (columns) => [
    uniqueIndex("fleet_status_identity").on(columns.identity),
    index("fleet_status_certificate").on(columns.certificateNotAfter, columns.identityId),
    index("fleet_status_troubled").on(troubledFrom),
    index("fleet_status_version").on(columns.version),
    index("fleet_status_platform").on(columns.platform),
    index("fleet_status_label_set").on(columns.labelSetId),
  ],
);

/**
 * The names of a host, the text that searches read, and its hashes. For a core of the previous version it also has
 * the columns of `fleet_status` as of the last change of the report. Triggers (`drizzle/sql/`) keep it equal to the view
 * `fleet_facts`, except for the last envelope, which only `fleet_status` follows.
 */
export const fleetHost = table(
  "fleet_host",
  {
    identityId: uuid().primaryKey(),
    /** The certificate used last; the newest one while none has been used. */
    certificateId: uuid(),
    enrolledAt: timestamp(),
    lastHeartbeatAt: timestamp(),
    /** To the second, so that a host that sends without a pause changes its row at most once a second. */
    lastEnvelopeAt: timestamp(),
    ...hostFacts.times,
    lastAuthFailureAt: timestamp(),
    /** -1 before the first heartbeat, as the limit and the lost records. */
    queueBytes: counter(),
    queueBytesMax: counter(),
    /** Records that the collector dropped or core rejected (dead letters), in all. */
    lostRecords: counter(),
    ...hostFacts.states,
    identity: byteText(),
    deviceId: byteText(),
    /** Empty when it is not known. */
    hostname: byteText(),
    /** The identity and, unless contained, the device id and the hostname, in lower case. */
    search: byteText(),
    /** The unused successor, expired or not. */
    successorId: nullable.uuid(),
    ...hostFacts.hashes,
  },
  (columns) => [
    uniqueIndex("fleet_host_identity").on(columns.identity),
    index("fleet_host_certificate").on(columns.certificateNotAfter, columns.identityId),
    index("fleet_host_troubled").on(troubledFrom),
    index("fleet_host_version").on(columns.version),
    index("fleet_host_platform").on(columns.platform),
    index("fleet_host_label_set").on(columns.labelSetId),
    index("fleet_host_device").on(columns.deviceId),
    index("fleet_host_hostname").on(columns.hostname),
  ],
);
