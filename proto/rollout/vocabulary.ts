/** The states of a rollout. `running`: a wave's hosts are being assigned or have not all applied; `soaking`: they have, and core waits. */
export const rolloutStates = [
  "running",
  "soaking",
  "paused",
  "rolling_back",
  "rolled_back",
  "aborted",
  "completed",
] as const;

/** One of `rolloutStates`. */
export type RolloutState = (typeof rolloutStates)[number];

/** The states of a rollout that has ended: its hosts may be in another one. */
export const endedStates: readonly RolloutState[] = ["rolled_back", "aborted", "completed"];

/**
 * The statuses of a target. `pending`: its wave has not started; `assigned`: the config is its desired one; `applied`: it reports that it
 * runs it; `failed`: a condition of the gate began since; `skipped`: core does not change it, for a reason; `reverted`: rolled back.
 */
export const targetStatuses = [
  "pending",
  "assigned",
  "applied",
  "failed",
  "skipped",
  "reverted",
] as const;

/** One of `targetStatuses`. */
export type TargetStatus = (typeof targetStatuses)[number];

/** Why a target is skipped. `reassigned`: somebody else changed its desired config; rolling back leaves it alone too. */
export const targetReasons = ["apply_desired_config_off", "revoked", "reassigned"] as const;

/** One of `targetReasons`. */
export type TargetReason = (typeof targetReasons)[number];

/**
 * The conditions by which a target fails, if they began since it was assigned: `config_invalid`: the host rejects the config, or reports
 * another invalid one; `rolled_back`: it returned to another config by itself; `not_applied`: it sends heartbeats and still does not run
 * the config.
 */
export const rolloutConditions = [
  "config_invalid",
  "stale",
  "rolled_back",
  "queue_at_risk",
  "component_unhealthy",
  "not_applied",
] as const;

/** One of `rolloutConditions`. */
export type RolloutCondition = (typeof rolloutConditions)[number];

/** The codes of a rollout's `reason`: the gate, the comparison with unchanged hosts, an operator, or a restore of the database. */
export const rolloutReasons = [
  "gate_breached",
  "worse_than_control",
  "operator",
  "database_restored",
] as const;

/** Begins an error of a heartbeat's `config.errors` that says why the host does not apply its desired config. Core reads it. */
export const desiredErrorPrefix = "desired config: ";

/** Follows `desiredErrorPrefix` if the host applied the config and rolled back to its last known good one. */
export const rolledBackPrefix = "rolled back: ";
