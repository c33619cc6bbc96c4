import { sql } from "drizzle-orm";
import { index, jsonb } from "drizzle-orm/pg-core";
import type { ChangeKind, HostComparison } from "#proto/fleet-health/comparison.ts";
import type { Drift } from "#proto/fleet-health/vocabulary.ts";
import {
  boolean,
  bytea,
  byteText,
  counter,
  integer,
  jsonText,
  nullable,
  primaryKeyOf,
  table,
  text,
  timestamp,
  uuid,
} from "./columns.ts";

/** The columns of a host that have a history, in groups that are neighbours in a row. */
export const hostFacts = {
  times: {
    certificateNotAfter: timestamp(),
    revokedFrom: timestamp(),
    /** When the certificate and its unused successor, if any, have both expired. */
    expiredFrom: timestamp(),
    /** When less than a quarter of the lifetime is left and no successor is valid. */
    expiringFrom: timestamp(),
    /** When core assigned the desired config; never for one that the heartbeat alone reports. */
    configAssignedAt: timestamp(),
    /** Time of the first heartbeat with the current running config. */
    runningConfigSince: timestamp(),
    /** Since when the row is revoked, else reports the first by precedence of the flags below; `-infinity` without one of them. */
    conditionSince: timestamp(),
    /** Time of the first heartbeat with the current version; of the enrollment before the first heartbeat. */
    versionSince: timestamp(),
    /** When a heartbeat or a late certificate last ended a condition; never for `-infinity`. */
    recoveredAt: timestamp(),
  },
  states: {
    /** The labels of the host, as a row of `label_set`. */
    labelSetId: integer(),
    renewalFailed: boolean(),
    configInvalid: boolean(),
    queueAtRisk: boolean(),
    /** As the last heartbeat reports it; false before the first. */
    forwarderConnected: boolean(),
    drift: byteText().$type<Drift>(),
    version: byteText(),
    platform: byteText(),
  },
  hashes: {
    /**
     * The hash of the assigned config, else of the one that the heartbeat reports as desired. Empty, as the other hashes, when it is not
     * known. Bytes, half the size of the text, and last: no other column is read through them.
     */
    desiredConfig: bytea(),
    runningConfig: bytea(),
    lastKnownGoodConfig: bytea(),
  },
};

/**
 * What `fleet_host` had of a host until it changed; the newest facts are those of `fleet_host` itself. At a time a host had the facts of the
 * first row that ends after it. A trigger (`drizzle/sql/fleet-history.sql`) writes the rows with each change.
 */
export const fleetHistory = table(
  "fleet_history",
  {
    identityId: uuid(),
    /** The time of the event that changed them. */
    untilAt: timestamp(),
    certificateId: uuid(),
    successorId: nullable.uuid(),
    ...hostFacts.times,
    ...hostFacts.states,
    ...hostFacts.hashes,
  },
  (columns) => [
    primaryKeyOf(columns.identityId, columns.untilAt),
    index("fleet_history_until").on(columns.untilAt),
    index("fleet_history_label_set").on(columns.labelSetId),
  ],
);

/**
 * A silence of a host that has ended and was longer than its threshold: no heartbeat, or no envelope, between `fromAt` and `untilAt`. Between
 * two silences each gap is shorter, so that the spans need no row. The time before the first one is a silence from `-infinity`.
 */
export const fleetSilence = table(
  "fleet_silence",
  {
    identityId: uuid(),
    /** True for a silence of envelopes, false for one of heartbeats. */
    isOfEnvelopes: boolean(),
    fromAt: timestamp(),
    untilAt: timestamp(),
    /** The size of the queue, as the last heartbeat before it reports it; -1 for a silence of envelopes. */
    queueBytes: counter(),
  },
  (columns) => [
    primaryKeyOf(columns.identityId, columns.isOfEnvelopes, columns.untilAt),
    index("fleet_silence_until").on(columns.untilAt),
  ],
);

/**
 * The core that received the heartbeats of a host, and the subnet that they came from, until they came by another one; the newest are those of
 * `fleet_status`. At a time a host had those of the first row that ends after it. A trigger writes the rows.
 */
export const fleetConnection = table(
  "fleet_connection",
  {
    identityId: uuid(),
    /** The first heartbeat by the next core, or from the next subnet. */
    untilAt: timestamp(),
    core: byteText(),
    subnet: byteText(),
  },
  (columns) => [
    primaryKeyOf(columns.identityId, columns.untilAt),
    index("fleet_connection_until").on(columns.untilAt),
  ],
);

/** The thresholds of the states from a time on: a row for each change. The first row is where history begins. */
export const fleetThreshold = table("fleet_threshold", {
  fromAt: timestamp().primaryKey(),
  thresholds: jsonb().$type<Readonly<Record<string, number | string | null>>>().notNull(),
  /** The one of `thresholds` by which the trigger records silences. */
  forwardingSeconds: integer(),
});

/** The figures of each host (`sampledFigures` in functions/store/fleet/host-hours.ts) at the first minute of each hour, kept for three days. */
export const fleetHour = table(
  "fleet_hour",
  {
    /** Since 1970. */
    hour: integer(),
    identityId: uuid(),
    figures: counter().array().notNull(),
  },
  // By hour, so that each one is added at the end.
  (columns) => [primaryKeyOf(columns.hour, columns.identityId)],
);

/** The sizes of queues whose oldest record waits, each five minutes, kept for some minutes: how fast they fill. */
export const queueSample = table(
  "queue_sample",
  {
    identityId: uuid(),
    /** The heartbeat that reported the size. */
    at: timestamp(),
    bytes: counter(),
  },
  (columns) => [primaryKeyOf(columns.identityId, columns.at)],
);

/** How many hosts were in which state at a time: a row for each five minutes. */
export const fleetSample = table("fleet_sample", {
  /** The start of the five minutes, so that several cores store one row. */
  slot: timestamp().primaryKey(),
  at: timestamp(),
  /** In the order of `sampledStates`. */
  states: integer().array().notNull(),
  needsAttention: integer(),
  /** Hosts that forwarded; null in a sample of an older core. */
  forwarding: nullable.integer(),
});

/** How a checkpoint is written. */
export interface CheckpointLayout {
  /** The version of the bytes. */
  format: number;
  columns: Readonly<Record<string, StoredColumn>>;
  /** Bytes of the lines before compression, and their SHA-256 in hex: tables with the same hosts in the same order have the same. */
  lines: { bytes: number; digest: string };
}

/** How a column of a checkpoint is written. */
export interface StoredColumn {
  /** Where it begins. */
  at: number;
  /** The number of hosts that differ from the base, whose places come first; absent in a whole checkpoint. */
  changed?: number | undefined;
  /** Numbers are `first + unit * code`, and infinite times the two highest codes; absent where they are written as they are. */
  code?: { bytes: 1 | 2 | 4; first: number; unit: number } | undefined;
  /** The texts that have these numbers. */
  texts?: readonly string[] | undefined;
}

/**
 * The hosts at a time, as core's memory has them. A view of the past starts with the next checkpoint and takes back the changes since, of which
 * there are some thousand at most: one is written after as many.
 */
export const fleetCheckpoint = table("fleet_checkpoint", {
  at: timestamp().primaryKey(),
  /** The checkpoint that these bytes are the difference from; null for a whole one. */
  baseAt: nullable.timestamp(),
  hosts: integer(),
  /** Empty: cores that do not know `layout` leave checkpoints without names alone. */
  names: jsonb().$type<Readonly<Record<string, never>>>().notNull(),
  rawBytes: integer(),
  /** Columns, compressed with zstd. */
  body: bytea(),
  /** Null in a checkpoint of an earlier format. */
  layout: jsonb().$type<CheckpointLayout>(),
  /** A line for each host with its id and identity, in a difference for each that its base lacks; compressed, apart, as most times share them. */
  lines: nullable.bytea(),
});

/** Changes outside of rollouts: hosts that went from one version, or one value of a label, to the same other one within some hours. */
export const fleetChange = table(
  "fleet_change",
  {
    id: uuid().primaryKey(),
    kind: text().$type<ChangeKind>(),
    /** The key of the label; empty for a version. */
    name: byteText(),
    /** Null for a label that the hosts did not have, or no longer have. */
    fromValue: nullable.byteText(),
    toValue: nullable.byteText(),
    /** When the first host changed, and the last one. */
    beganAt: timestamp(),
    endedAt: timestamp(),
    hosts: integer(),
    /** Its hosts against unchanged ones, once it has soaked. */
    comparison: jsonText<HostComparison>(),
  },
  (columns) => [
    index("fleet_change_began").on(columns.beganAt),
    index("fleet_change_open").on(columns.endedAt).where(sql`${columns.comparison} is null`),
  ],
);

/** The hours that were searched for changes, each once, and how many of each were beyond the limits. */
export const fleetChangeHour = table("fleet_change_hour", {
  /** Since 1970. */
  hour: integer().primaryKey(),
  refused: integer(),
});
