import { sortedFigures } from "../management/reported-numbers.ts";

/** The conditions of a collector, in order of precedence: its state is the first that applies (docs/fleet-health.md). */
export const fleetConditions = [
  "revoked",
  "enrolling",
  "renewal_failed",
  "stale",
  "cert_expiring",
  "config_invalid",
  "unsupported_version",
  "queue_at_risk",
  "component_unhealthy",
] as const;

/** One of `fleetConditions`. */
export type FleetCondition = (typeof fleetConditions)[number];

/**
 * The columns of conditions that a host has without regard to thresholds: what its last heartbeat reported, and when others begin. The
 * flag `queue_at_risk` of an agent without a queue is its `component_unhealthy`.
 */
export const troubles = {
  flags: ["renewal_failed", "config_invalid", "queue_at_risk"],
  times: ["revoked_from", "expired_from", "expiring_from"],
} as const;

/** The columns of a host that have a history, by kind; the keys are the first eight bytes of the hashes of configs. */
export const factColumns: Readonly<
  Record<"times" | "amounts" | "keys" | "flags", readonly string[]>
> & { readonly names: readonly ("version" | "platform" | "drift")[] } = {
  times: [
    ...troubles.times,
    "certificate_not_after",
    "config_assigned_at",
    "running_config_since",
    "condition_since",
    "version_since",
    "recovered_at",
  ],
  amounts: ["label_set_id"],
  keys: ["desired_config_key", "running_config_key", "last_known_good_config_key"],
  flags: [...troubles.flags, "forwarder_connected"],
  names: ["version", "platform", "drift"],
};

/** The states: the conditions, and `healthy` when none applies. */
export const fleetStates = [...fleetConditions, "healthy"] as const;

/** One of `fleetStates`. */
export type FleetState = (typeof fleetStates)[number];

/** How the running config relates to the desired one. */
export const driftKinds = [
  "in_sync",
  "drifted",
  "on_last_known_good",
  "no_desired",
  "unknown",
] as const;

/** One of `driftKinds`. */
export type Drift = (typeof driftKinds)[number];

/** Selections by heartbeat. `recent`: not revoked, and the last one is within the threshold of `stale`; `never`: none yet. */
export const heartbeatKinds = ["recent", "never"] as const;

/** The collector's own report of its connection to core. */
export const forwarderKinds = ["connected", "disconnected"] as const;

/**
 * Config progress: whether a host runs its desired config, in order of precedence. *silent*: no heartbeat since the config was
 * assigned, or within the threshold of `stale`; *running*: the last heartbeat names it; *failed*: the last heartbeat reports an invalid
 * config; *drifted*: it names another. A host that is revoked or has no desired config is in none.
 */
export const configProgress = ["silent", "running", "failed", "drifted"] as const;

/** One of `configProgress`. */
export type ConfigProgress = (typeof configProgress)[number];

/**
 * How a host forwards. `forwarding`: an envelope within `thresholds.forwarding_seconds`; `stopped`: none within it, though there were some
 * before, and the host sends heartbeats or its last one reports records in the queue; `never`: has sent heartbeats and no envelope. A
 * revoked host has none of them, nor has one that is silent with an empty queue.
 */
export const forwardings = ["forwarding", "stopped", "never"] as const;

/** One of `forwardings`. */
export type Forwarding = (typeof forwardings)[number];

/**
 * How urgently hosts need attention, the worst first: the order of the sort `severity`. It ranks by the state and, if no condition applies, by
 * whether the host forwards. (Precedence, in contrast, decides which state explains the others.) First come states that stop a host until
 * somebody helps, then those that lose data, then those that will. An enrolling host needs time, and a revoked one is as intended.
 */
export const fleetSeverities = [
  "renewal_failed",
  "stale",
  "queue_at_risk",
  "component_unhealthy",
  "config_invalid",
  "cert_expiring",
  "unsupported_version",
  "not_forwarding",
  "enrolling",
  "revoked",
  "healthy",
] as const satisfies readonly (FleetState | "not_forwarding")[];

/** One of `fleetSeverities`. */
export type FleetSeverity = (typeof fleetSeverities)[number];

/** Selection by attention. `needed`: the host is in one of `attentionStates`, or in no trouble and yet does not forward. */
export const attentionKinds = ["needed"] as const;

/** Selection by budget. `held`: the host has used up its budget of this hour (docs/volume.md). */
export const budgetKinds = ["held"] as const;

/** The states that need attention, the worst first: neither healthy, nor new, nor revoked on purpose. */
export const attentionStates: readonly FleetState[] = fleetSeverities
  .slice(0, fleetSeverities.indexOf("enrolling"))
  .filter((severity) => severity !== "not_forwarding");

/** Returns how urgently a host needs attention. */
export const severityOf = ({
  state,
  forwarding,
}: {
  state: FleetState;
  forwarding: Forwarding | null;
}): FleetSeverity =>
  state === "healthy" && (forwarding === "stopped" || forwarding === "never")
    ? "not_forwarding"
    : state;

/**
 * What the report sorts by; `identity` by default. `severity` ascending is the worst first (`fleetSeverities`), and among equals the host
 * whose state began last.
 */
export const fleetSorts = [
  "identity",
  "severity",
  "last_heartbeat_at",
  "last_envelope_at",
  "certificate_not_after",
  ...sortedFigures,
  "incomplete_hours",
  "day_bytes",
] as const;

/** One of `fleetSorts`. */
export type FleetSort = (typeof fleetSorts)[number];

/** The orders by facts without history, which pages of the past do not offer. */
export const sortsOfNow: ReadonlySet<FleetSort> = new Set([
  ...sortedFigures,
  "incomplete_hours",
  "day_bytes",
]);

/**
 * How inventory and fleet agree on a host. `expected`: in both; `missing`: in the inventory, and never enrolled; `unexpected`: enrolled, not
 * revoked, and never in the inventory; `gone`: no longer in the inventory, and still sends heartbeats or telemetry.
 */
export const inventoryStatuses = ["missing", "unexpected", "gone", "expected"] as const;

/** One of `inventoryStatuses`. */
export type InventoryStatus = (typeof inventoryStatuses)[number];

/** The statuses of hosts that the fleet has. */
export const enrolledStatuses = [
  "expected",
  "unexpected",
  "gone",
] as const satisfies readonly InventoryStatus[];

/** A status of a host that the fleet has. */
export type EnrolledStatus = (typeof enrolledStatuses)[number];

/** The CSV exports (docs/fleet-health.md). */
export const exportKinds = [
  "stale",
  "queue_risk",
  "unhealthy_components",
  "renewal_failures",
  "config_drift",
] as const;

/** One of `exportKinds`. */
export type ExportKind = (typeof exportKinds)[number];

/** The statuses of a certificate, in order of precedence. */
export const certificateStatuses = ["revoked", "expired", "replaced", "active"] as const;

/** One of `certificateStatuses`. */
export type CertificateStatus = (typeof certificateStatuses)[number];

/** Returns the status of a certificate at `now`. A certificate that has expired is no longer `replaced` or `active`. */
export const certificateStatus = (
  { status, notAfter }: { status: Exclude<CertificateStatus, "expired">; notAfter: Date },
  now: number,
): CertificateStatus => (status !== "revoked" && notAfter.getTime() <= now ? "expired" : status);

/** The longest duration that a filter takes: ten years. */
export const filterSecondsMax = 315_360_000;

/** The largest count or size in a filter: 12 digits. */
export const filterCountMax = 999_999_999_999;

/** How far `ahead` looks without `hours`: a weekend of three days. */
export const aheadHours = 72;
