/** Rollouts as core reports them (docs/rollouts.md). */
import * as v from "valibot";
import { HostComparison } from "../fleet-health/comparison.ts";
import {
  FilledList,
  FilledListUpTo,
  Flag,
  Id,
  Integer,
  IsoTimestamp,
  NumberOrNull,
  OutageView,
  PageOf,
  TextOrNull,
  TextUpTo,
  TimestampOrNull,
} from "../values.ts";
import {
  rolloutConditions,
  rolloutReasons,
  rolloutStates,
  targetReasons,
  targetStatuses,
} from "./vocabulary.ts";

/** The most waves of a rollout. */
export const wavesMax = 50;

/** The longest soak of a wave: a week. */
const soakSecondsMax = 604_800;

/** The most targets in the evidence of a breach. */
export const evidenceMax = 50;

const SoakSeconds = Integer(0, soakSecondsMax);

/** A share of hosts in percent, up to `max`. */
const Percent = v.pipe(
  v.number("must be a number"),
  v.minValue(0, "must be at least 0"),
  v.maxValue(100, "must be at most 100"),
);

/** A wave as requested: how far the rollout has got with it, as a share or as a number of all targets. */
export const WaveBody = v.union(
  [
    v.strictObject({
      percent: v.pipe(Percent, v.gtValue(0, "must be more than 0")),
      soak_seconds: SoakSeconds,
    }),
    v.strictObject({ count: Integer(1, 10_000_000), soak_seconds: SoakSeconds }),
  ],
  "must be {percent, soak_seconds} or {count, soak_seconds}",
);

/** A wave as requested. */
export type WaveBody = v.InferOutput<typeof WaveBody>;

/** The gate: the share of a wave's hosts, without the skipped ones, that may fail, and the conditions that count. */
export const Gate = v.strictObject({
  max_failed_percent: Percent,
  states: v.pipe(
    FilledList(v.picklist(rolloutConditions, `must be one of ${rolloutConditions.join(", ")}`)),
    v.transform((states) => rolloutConditions.filter((condition) => states.includes(condition))),
  ),
  /** Whether a wave whose hosts turn out worse than unchanged ones breaches it too. */
  worse_than_control: v.optional(Flag, false),
});

/** What core does when the gate is breached. */
export const OnBreach = v.picklist(["pause", "roll_back"], "must be pause or roll_back");

/** A query of the language of `/fleet`; empty for every host. */
export const RolloutQuery = TextUpTo(4096);

/** Body of `POST /v1/collector/rollouts`. */
export const RolloutBody = v.strictObject({
  config_id: Id,
  filter: v.optional(RolloutQuery, ""),
  /** Every host; a filter that selects every host is rejected without it, as it is more often a mistake. */
  all: v.optional(Flag, false),
  waves: FilledListUpTo(wavesMax, WaveBody),
  gate: v.optional(Gate, {
    max_failed_percent: 5,
    states: [...rolloutConditions],
    worse_than_control: false,
  }),
  on_breach: v.optional(OnBreach, "pause"),
});

/** Body of `POST /v1/collector/rollouts`. */
export type RolloutBody = v.InferOutput<typeof RolloutBody>;

/** Of `reverted`, those that had failed; absent from an earlier core. */
const revertedFailed = { reverted_failed: v.optional(v.number()) };

/** A wave. Its counts are of its own targets. */
export const RolloutWave = v.strictObject({
  number: v.number(),
  /** As requested; the other of the two is null. Of all targets, with those of the waves before. */
  percent: NumberOrNull,
  count: NumberOrNull,
  soak_seconds: v.number(),
  targets: v.number(),
  ...v.entriesFromList(targetStatuses, v.number()),
  ...revertedFailed,
  started_at: TimestampOrNull,
  /** Later after an outage of core, which counts for no soak. */
  soak_until: TimestampOrNull,
  completed_at: TimestampOrNull,
  /** Once it has soaked; absent until then, and without figures from before. */
  comparison: v.optional(HostComparison),
});

/** A wave. */
export type RolloutWave = v.InferOutput<typeof RolloutWave>;

/** A target that failed: the condition, when it began, and what the host reported. */
export const RolloutEvidence = v.strictObject({
  identity_id: Id,
  identity: v.string(),
  condition: v.picklist(rolloutConditions),
  began_at: IsoTimestamp,
  detail: v.string(),
});

/** A target that failed. */
export type RolloutEvidence = v.InferOutput<typeof RolloutEvidence>;

/** The breach of the gate. */
export const RolloutBreach = v.strictObject({
  wave: v.number(),
  failed: v.number(),
  failed_percent: v.number(),
  at: IsoTimestamp,
  /** The first failed targets of the wave, at most 50. */
  evidence: v.array(RolloutEvidence),
});

/** The breach of the gate. */
export type RolloutBreach = v.InferOutput<typeof RolloutBreach>;

const NamedConfig = v.strictObject({ id: Id, name: TextOrNull, config_hash: v.string() });

/** A rollout. */
export const Rollout = v.strictObject({
  id: Id,
  config: NamedConfig,
  filter: v.string(),
  state: v.picklist(rolloutStates),
  /** Why it paused, rolled back or was aborted: the gate, or an operator. */
  reason: v.nullable(v.strictObject({ code: v.picklist(rolloutReasons), detail: TextOrNull })),
  /** The number of the current wave, from 1. */
  wave: v.number(),
  waves: v.array(RolloutWave),
  gate: v.strictObject({
    max_failed_percent: v.number(),
    states: v.array(v.picklist(rolloutConditions)),
    worse_than_control: v.boolean(),
  }),
  on_breach: OnBreach,
  targets: v.number(),
  ...v.entriesFromList(targetStatuses, v.number()),
  ...revertedFailed,
  created_by: v.string(),
  /** The email of a person, or the subject of a workload. */
  created_by_name: v.string(),
  created_at: IsoTimestamp,
  updated_at: IsoTimestamp,
  ended_at: TimestampOrNull,
  /** The newest breach of the gate. */
  breach: v.nullable(RolloutBreach),
  /** Outages of core while it was open, the oldest first; absent without one. */
  outages: v.optional(v.array(OutageView)),
});

/** A rollout. */
export type Rollout = v.InferOutput<typeof Rollout>;

/** Response of `GET /v1/collector/rollouts`: one page, newest first. */
export const RolloutList = PageOf(Rollout);

/** Response of `GET /v1/collector/rollouts`. */
export type RolloutList = v.InferOutput<typeof RolloutList>;

/** A host of a rollout. */
export const RolloutTarget = v.strictObject({
  identity_id: Id,
  identity: v.string(),
  device_id: v.string(),
  wave: v.number(),
  status: v.picklist(targetStatuses),
  /** Why it is skipped. */
  reason: v.nullable(v.picklist(targetReasons)),
  /** The desired config before the rollout; null for none, and before the wave. */
  previous_config_id: v.nullable(Id),
  assigned_at: TimestampOrNull,
  applied_at: TimestampOrNull,
  failed_at: TimestampOrNull,
  condition: v.nullable(v.picklist(rolloutConditions)),
  condition_began_at: TimestampOrNull,
  detail: TextOrNull,
  reverted_at: TimestampOrNull,
});

/** A host of a rollout. */
export type RolloutTarget = v.InferOutput<typeof RolloutTarget>;

/** Response of `GET /v1/collector/rollouts/{id}/targets`: one page, in the order of the waves. */
export const RolloutTargetPage = PageOf(RolloutTarget);

/** Response of `GET /v1/collector/rollouts/{id}/targets`. */
export type RolloutTargetPage = v.InferOutput<typeof RolloutTargetPage>;

/** The most configs, and the most refusing hosts, in a preview. */
export const previewMax = 50;

/** Response of `GET /v1/collector/configs/{id}/preview`: what a rollout of the config to the hosts of a filter would meet. */
export const RolloutPreview = v.strictObject({
  config: NamedConfig,
  filter: v.string(),
  /** All hosts of the filter: the sum of `will_change`, `unchanged` and `skipped`. */
  hosts: v.number(),
  /** Hosts that would be assigned the config. */
  will_change: v.number(),
  /** Hosts to which it is assigned already. */
  unchanged: v.number(),
  /** Hosts that a rollout would skip; `refused` has the first of them. */
  skipped: v.number(),
  /** The configs that are assigned now, those with the most hosts first, at most 50. */
  from: v.array(
    v.strictObject({
      /** Null: core has assigned none. */
      config: v.nullable(NamedConfig),
      hosts: v.number(),
      /** From this config to the new one, as a unified diff; null without a config, or if the diff takes too long. */
      diff: TextOrNull,
      /** The rules of `processors` that differ, by name; null as `diff`. */
      rules: v.nullable(
        v.array(
          v.strictObject({ rule: v.string(), change: v.picklist(["added", "removed", "changed"]) }),
        ),
      ),
    }),
  ),
  refused: v.array(
    v.strictObject({ identity_id: Id, identity: v.string(), reason: v.picklist(targetReasons) }),
  ),
  /**
   * Versions that do not know a key of the config, which refuses a rollout, and versions whose collectors have rejected it, with what they
   * reported; `hosts` are those of the filter.
   */
  unparsable: v.array(
    v.strictObject({ version: v.string(), hosts: v.number(), errors: v.array(v.string()) }),
  ),
  /** Rollouts that have not ended, with hosts of the filter: they make a new one 409 `rollout_overlap`. */
  in_other_rollouts: v.array(v.strictObject({ rollout_id: Id, hosts: v.number() })),
});

/** Response of `GET /v1/collector/configs/{id}/preview`. */
export type RolloutPreview = v.InferOutput<typeof RolloutPreview>;
