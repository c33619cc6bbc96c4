import { sql } from "drizzle-orm";
import { doublePrecision, index, uniqueIndex } from "drizzle-orm/pg-core";
import type { HostComparison } from "#proto/fleet-health/comparison.ts";
import type {
  RolloutCondition,
  RolloutState,
  TargetReason,
  TargetStatus,
} from "#proto/rollout/vocabulary.ts";
import {
  boolean,
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
export const rollout = table(
  "rollout",
  {
    id: uuid().primaryKey(),
    configId: uuid().references(() => collectorConfig.id),
    filter: text(),
    state: text().$type<RolloutState>(),
    /** The number of the current wave, from 1. */
    wave: integer(),
    /** The share of a wave's targets, without the skipped ones, that may fail. */
    maxFailedPercent: doublePrecision().notNull(),
    conditions: text().array().$type<RolloutCondition[]>().notNull(),
    onBreach: text().$type<"pause" | "roll_back">(),
    /** Whether it stops when the hosts of a wave turn out worse than unchanged ones. */
    stopsIfWorse: boolean().default(false),
    /** Targets that failed before this time no longer count: an operator has resumed the rollout in spite of them. */
    gateFrom: timestamp(),
    /** Why it paused, rolled back or was aborted. */
    reasonCode: nullable.text(),
    reason: nullable.text(),
    breach: jsonText<StoredBreach>(),
    createdAt: timestamp(),
    createdBy: uuid(),
    /** Whether `created_by` is a workload, and the name that the audit log shows. */
    createdByWorkload: boolean(),
    createdByName: text(),
    updatedAt: timestamp(),
    endedAt: nullable.timestamp(),
  },
  (columns) => [
    index("rollout_config").on(columns.configId, columns.id),
    index("rollout_state").on(columns.state, columns.id),
    index("rollout_open").on(columns.id).where(sql`${columns.endedAt} is null`),
  ],
);

/** A wave of a rollout, with the counts of its targets by status: kept in the transactions that change a target. */
export const rolloutWave = table(
  "rollout_wave",
  {
    rolloutId: uuid().references(() => rollout.id),
    number: integer(),
    /** As requested: the share, or the number, of all targets that the rollout has reached with this wave. One of them is null. */
    percent: doublePrecision(),
    count: nullable.integer(),
    soakSeconds: integer(),
    targets: integer(),
    pending: integer(),
    assigned: integer(),
    applied: integer(),
    failed: integer(),
    skipped: integer(),
    reverted: integer(),
    startedAt: nullable.timestamp(),
    soakUntil: nullable.timestamp(),
    completedAt: nullable.timestamp(),
    /** Its hosts against unchanged ones, once it has soaked. */
    comparison: jsonText<HostComparison>(),
  },
  (columns) => [primaryKeyOf(columns.rolloutId, columns.number)],
);

/**
 * A host of a rollout, in the order of the waves. Frozen at creation: a host that matches the filter later is no target. Without foreign
 * keys, whose checks would take most of the time in which 100,000 targets are inserted: identities and rollouts are never deleted.
 */
export const rolloutTarget = table(
  "rollout_target",
  {
    rolloutId: uuid(),
    /** From 1, by a hash of the rollout and the identity, so that neighbours are in different waves. */
    place: integer(),
    identityId: uuid(),
    wave: integer(),
    status: text().$type<TargetStatus>(),
    /** Why it is skipped. */
    reason: nullable.text().$type<TargetReason>(),
    assignmentId: nullable.uuid(),
    /** The desired config before; null for none. Known once `assigned_at` is. */
    previousConfigId: nullable.uuid(),
    assignedAt: nullable.timestamp(),
    /** When the host first reported that it runs the config. */
    appliedAt: nullable.timestamp(),
    /** When core found the condition, and when it began. */
    failedAt: nullable.timestamp(),
    condition: nullable.text().$type<RolloutCondition>(),
    conditionBeganAt: nullable.timestamp(),
    conditionDetail: nullable.text(),
    /** The collector's version when it failed. */
    failedVersion: nullable.text(),
    revertedAt: nullable.timestamp(),
  },
  (columns) => [
    primaryKeyOf(columns.rolloutId, columns.place),
    uniqueIndex("rollout_target_identity").on(columns.identityId, columns.rolloutId),
    index("rollout_target_status").on(
      columns.rolloutId,
      columns.status,
      columns.wave,
      columns.place,
    ),
  ],
);

/**
 * The hosts by which a wave is compared with unchanged ones, and their figures (`sampledFigures` in functions/store/fleet/host-hours.ts) in the
 * course of it. Deleted once it has been compared.
 */
export const rolloutSample = table(
  "rollout_sample",
  {
    rolloutId: uuid(),
    wave: integer(),
    identityId: uuid(),
    isControl: boolean(),
    /** The order by lot in which the hosts of a group are taken. */
    place: integer(),
    /** When the wave started. */
    platform: byteText(),
    version: byteText(),
    labelSetId: integer(),
    /** Up to a day before the start; null where it is not known. */
    figuresBefore: counter().array(),
    figuresAtStart: counter().array().notNull(),
    /** When its soak began. */
    figuresAtSoak: counter().array(),
  },
  (columns) => [primaryKeyOf(columns.rolloutId, columns.wave, columns.identityId)],
);
