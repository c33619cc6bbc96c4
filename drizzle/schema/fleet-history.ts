import { sql } from "drizzle-orm";
import {
  bigint,
  boolean,
  index,
  integer,
  jsonb,
  pgTable,
  primaryKey,
  text,
  uuid,
} from "drizzle-orm/pg-core";
import type { ChangeKind } from "../../proto/fleet-health/changes.ts";
import type { HostComparison } from "../../proto/fleet-health/comparison.ts";
import type { Drift } from "../../proto/fleet-health/vocabulary.ts";
import { bytea, byteText, jsonText, timestamp } from "./columns.ts";

/**
 * What `fleet_host` had of a host until it changed; the newest facts are those of `fleet_host` itself. At a time a host had the facts of the
 * first row that ends after it. A trigger (`drizzle/sql/fleet-history.sql`) writes the rows with each change.
 */
export const fleetHistory = pgTable(
  "fleet_history",
  {
    identityId: uuid("identity_id").notNull(),
    /** The time of the event that changed them. */
    untilAt: timestamp("until_at").notNull(),
    certificateId: uuid("certificate_id").notNull(),
    successorId: uuid("successor_id"),
    certificateNotAfter: timestamp("certificate_not_after").notNull(),
    revokedFrom: timestamp("revoked_from").notNull(),
    expiredFrom: timestamp("expired_from").notNull(),
    expiringFrom: timestamp("expiring_from").notNull(),
    configAssignedAt: timestamp("config_assigned_at").notNull(),
    runningConfigSince: timestamp("running_config_since").notNull(),
    conditionSince: timestamp("condition_since").notNull(),
    versionSince: timestamp("version_since").notNull(),
    recoveredAt: timestamp("recovered_at").notNull(),
    labelSetId: integer("label_set_id").notNull(),
    renewalFailed: boolean("renewal_failed").notNull(),
    configInvalid: boolean("config_invalid").notNull(),
    queueAtRisk: boolean("queue_at_risk").notNull(),
    forwarderConnected: boolean("forwarder_connected").notNull(),
    drift: byteText("drift").$type<Drift>().notNull(),
    version: byteText("version").notNull(),
    platform: byteText("platform").notNull(),
    desiredConfig: bytea("desired_config").notNull(),
    runningConfig: bytea("running_config").notNull(),
    lastKnownGoodConfig: bytea("last_known_good_config").notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.identityId, table.untilAt] }),
    index("fleet_history_until").on(table.untilAt),
    index("fleet_history_label_set").on(table.labelSetId),
  ],
);

/**
 * A silence of a host that has ended and was longer than its threshold: no heartbeat, or no envelope, between `fromAt` and `untilAt`. Between
 * two silences each gap is shorter, so that the spans need no row. The time before the first one is a silence from `-infinity`.
 */
export const fleetSilence = pgTable(
  "fleet_silence",
  {
    identityId: uuid("identity_id").notNull(),
    /** True for a silence of envelopes, false for one of heartbeats. */
    isOfEnvelopes: boolean("is_of_envelopes").notNull(),
    fromAt: timestamp("from_at").notNull(),
    untilAt: timestamp("until_at").notNull(),
    /** The size of the queue, as the last heartbeat before it reports it; -1 for a silence of envelopes. */
    queueBytes: bigint("queue_bytes", { mode: "number" }).notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.identityId, table.isOfEnvelopes, table.untilAt] }),
    index("fleet_silence_until").on(table.untilAt),
  ],
);

/**
 * The core that received the heartbeats of a host, and the subnet that they came from, until they came by another one; the newest are those of
 * `fleet_status`. At a time a host had those of the first row that ends after it. A trigger writes the rows.
 */
export const fleetConnection = pgTable(
  "fleet_connection",
  {
    identityId: uuid("identity_id").notNull(),
    /** The first heartbeat by the next core, or from the next subnet. */
    untilAt: timestamp("until_at").notNull(),
    core: byteText("core").notNull(),
    subnet: byteText("subnet").notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.identityId, table.untilAt] }),
    index("fleet_connection_until").on(table.untilAt),
  ],
);

/** The thresholds of the states from a time on: a row for each change. The first row is where history begins. */
export const fleetThreshold = pgTable("fleet_threshold", {
  fromAt: timestamp("from_at").primaryKey(),
  thresholds: jsonb("thresholds")
    .$type<Readonly<Record<string, number | string | null>>>()
    .notNull(),
  /** The one of `thresholds` by which the trigger records silences. */
  forwardingSeconds: integer("forwarding_seconds").notNull(),
});

/** The figures of each host (`sampledFigures` in functions/store/fleet/host-hours.ts) at the first minute of each hour, kept for three days. */
export const fleetHour = pgTable(
  "fleet_hour",
  {
    /** Since 1970. */
    hour: integer("hour").notNull(),
    identityId: uuid("identity_id").notNull(),
    figures: bigint("figures", { mode: "number" }).array().notNull(),
  },
  // By hour, so that each one is added at the end.
  (table) => [primaryKey({ columns: [table.hour, table.identityId] })],
);

/** How many hosts were in which state at a time: a row for each five minutes. */
export const fleetSample = pgTable("fleet_sample", {
  /** The start of the five minutes, so that several cores store one row. */
  slot: timestamp("slot").primaryKey(),
  at: timestamp("at").notNull(),
  /** In the order of `fleetStates`. */
  states: integer("states").array().notNull(),
  needsAttention: integer("needs_attention").notNull(),
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
export const fleetCheckpoint = pgTable("fleet_checkpoint", {
  at: timestamp("at").primaryKey(),
  /** The checkpoint that these bytes are the difference from; null for a whole one. */
  baseAt: timestamp("base_at"),
  hosts: integer("hosts").notNull(),
  /** Empty: cores that do not know `layout` leave checkpoints without names alone. */
  names: jsonb("names").$type<Readonly<Record<string, never>>>().notNull(),
  rawBytes: integer("raw_bytes").notNull(),
  /** Columns, compressed with zstd. */
  body: bytea("body").notNull(),
  /** Null in a checkpoint of an earlier format. */
  layout: jsonb("layout").$type<CheckpointLayout>(),
  /** A line for each host with its id and identity, in a difference for each that its base lacks; compressed, apart, as most times share them. */
  lines: bytea("lines"),
});

/** Changes outside of rollouts: hosts that went from one version, or one value of a label, to the same other one within some hours. */
export const fleetChange = pgTable(
  "fleet_change",
  {
    id: uuid("id").primaryKey(),
    kind: text("kind").$type<ChangeKind>().notNull(),
    /** The key of the label; empty for a version. */
    name: byteText("name").notNull(),
    /** Null for a label that the hosts did not have, or no longer have. */
    fromValue: byteText("from_value"),
    toValue: byteText("to_value"),
    /** When the first host changed, and the last one. */
    beganAt: timestamp("began_at").notNull(),
    endedAt: timestamp("ended_at").notNull(),
    hosts: integer("hosts").notNull(),
    /** Its hosts against unchanged ones, once it has soaked. */
    comparison: jsonText<HostComparison>("comparison"),
  },
  (table) => [
    index("fleet_change_began").on(table.beganAt),
    index("fleet_change_open").on(table.endedAt).where(sql`${table.comparison} is null`),
  ],
);

/** The hours that were searched for changes, each once, and how many of each were beyond the limits. */
export const fleetChangeHour = pgTable("fleet_change_hour", {
  /** Since 1970. */
  hour: integer("hour").primaryKey(),
  refused: integer("refused").notNull(),
});
