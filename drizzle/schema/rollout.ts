import { sql } from "drizzle-orm";
import {
  bigint,
  boolean,
  doublePrecision,
  index,
  integer,
  pgTable,
  primaryKey,
  text,
  uniqueIndex,
  uuid,
} from "drizzle-orm/pg-core";
import type { HostComparison } from "../../proto/fleet-health/comparison.ts";
import type {
  RolloutCondition,
  RolloutState,
  TargetReason,
  TargetStatus,
} from "../../proto/rollout/vocabulary.ts";
import { byteText, jsonText, timestamp } from "./columns.ts";
import { collectorConfig } from "./config.ts";

/** The breach of the gate: the wave, and the first of its failed targets. */
export interface StoredBreach {
  wave: number;
  failed: number;
  failedPercent: number;
  at: string;
  evidence: {
    identityId: string;
    identity: string;
    condition: RolloutCondition;
    beganAt: string;
    detail: string;
  }[];
}

/** A config on its way to the hosts of a filter, wave by wave. */
export const rollout = pgTable(
  "rollout",
  {
    id: uuid("id").primaryKey(),
    configId: uuid("config_id")
      .notNull()
      .references(() => collectorConfig.id),
    filter: text("filter").notNull(),
    state: text("state").$type<RolloutState>().notNull(),
    /** The number of the current wave, from 1. */
    wave: integer("wave").notNull(),
    /** The share of a wave's targets, without the skipped ones, that may fail. */
    maxFailedPercent: doublePrecision("max_failed_percent").notNull(),
    conditions: text("conditions").array().$type<RolloutCondition[]>().notNull(),
    onBreach: text("on_breach").$type<"pause" | "roll_back">().notNull(),
    /** Whether it stops when the hosts of a wave turn out worse than unchanged ones. */
    stopsIfWorse: boolean("stops_if_worse").notNull().default(false),
    /** Targets that failed before this time no longer count: an operator has resumed the rollout in spite of them. */
    gateFrom: timestamp("gate_from").notNull(),
    /** Why it paused, rolled back or was aborted. */
    reasonCode: text("reason_code"),
    reason: text("reason"),
    breach: jsonText<StoredBreach>("breach"),
    createdAt: timestamp("created_at").notNull(),
    createdBy: uuid("created_by").notNull(),
    /** Whether `created_by` is a workload, and the name that the audit log shows. */
    createdByWorkload: boolean("created_by_workload").notNull(),
    createdByName: text("created_by_name").notNull(),
    updatedAt: timestamp("updated_at").notNull(),
    endedAt: timestamp("ended_at"),
  },
  (table) => [
    index("rollout_config").on(table.configId, table.id),
    index("rollout_state").on(table.state, table.id),
    index("rollout_open").on(table.id).where(sql`${table.endedAt} is null`),
  ],
);

/** A wave of a rollout, with the counts of its targets by status: kept in the transactions that change a target. */
export const rolloutWave = pgTable(
  "rollout_wave",
  {
    rolloutId: uuid("rollout_id")
      .notNull()
      .references(() => rollout.id),
    number: integer("number").notNull(),
    /** As requested: the share, or the number, of all targets that the rollout has reached with this wave. One of them is null. */
    percent: doublePrecision("percent"),
    count: integer("count"),
    soakSeconds: integer("soak_seconds").notNull(),
    targets: integer("targets").notNull(),
    pending: integer("pending").notNull(),
    assigned: integer("assigned").notNull(),
    applied: integer("applied").notNull(),
    failed: integer("failed").notNull(),
    skipped: integer("skipped").notNull(),
    reverted: integer("reverted").notNull(),
    startedAt: timestamp("started_at"),
    soakUntil: timestamp("soak_until"),
    completedAt: timestamp("completed_at"),
    /** Its hosts against unchanged ones, once it has soaked. */
    comparison: jsonText<HostComparison>("comparison"),
  },
  (table) => [primaryKey({ columns: [table.rolloutId, table.number] })],
);

/**
 * A host of a rollout, in the order of the waves. Frozen at creation: a host that matches the filter later is no target. Without foreign
 * keys, whose checks would take most of the time in which 100,000 targets are inserted: identities and rollouts are never deleted.
 */
export const rolloutTarget = pgTable(
  "rollout_target",
  {
    rolloutId: uuid("rollout_id").notNull(),
    /** From 1, by a hash of the rollout and the identity, so that neighbours are in different waves. */
    place: integer("place").notNull(),
    identityId: uuid("identity_id").notNull(),
    wave: integer("wave").notNull(),
    status: text("status").$type<TargetStatus>().notNull(),
    /** Why it is skipped. */
    reason: text("reason").$type<TargetReason>(),
    assignmentId: uuid("assignment_id"),
    /** The desired config before; null for none. Known once `assigned_at` is. */
    previousConfigId: uuid("previous_config_id"),
    assignedAt: timestamp("assigned_at"),
    /** When the host first reported that it runs the config. */
    appliedAt: timestamp("applied_at"),
    /** When core found the condition, and when it began. */
    failedAt: timestamp("failed_at"),
    condition: text("condition").$type<RolloutCondition>(),
    conditionBeganAt: timestamp("condition_began_at"),
    conditionDetail: text("condition_detail"),
    /** The collector's version when it failed. */
    failedVersion: text("failed_version"),
    revertedAt: timestamp("reverted_at"),
  },
  (table) => [
    primaryKey({ columns: [table.rolloutId, table.place] }),
    uniqueIndex("rollout_target_identity").on(table.identityId, table.rolloutId),
    index("rollout_target_status").on(table.rolloutId, table.status, table.wave, table.place),
  ],
);

/**
 * The hosts by which a wave is compared with unchanged ones, and their figures (`sampledFigures` in functions/store/fleet/host-hours.ts) in the
 * course of it. Deleted once it has been compared.
 */
export const rolloutSample = pgTable(
  "rollout_sample",
  {
    rolloutId: uuid("rollout_id").notNull(),
    wave: integer("wave").notNull(),
    identityId: uuid("identity_id").notNull(),
    isControl: boolean("is_control").notNull(),
    /** The order by lot in which the hosts of a group are taken. */
    place: integer("place").notNull(),
    /** When the wave started. */
    platform: byteText("platform").notNull(),
    version: byteText("version").notNull(),
    labelSetId: integer("label_set_id").notNull(),
    /** Up to a day before the start; null where it is not known. */
    figuresBefore: bigint("figures_before", { mode: "number" }).array(),
    figuresAtStart: bigint("figures_at_start", { mode: "number" }).array().notNull(),
    /** When its soak began. */
    figuresAtSoak: bigint("figures_at_soak", { mode: "number" }).array(),
  },
  (table) => [primaryKey({ columns: [table.rolloutId, table.wave, table.identityId] })],
);
