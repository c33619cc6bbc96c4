/** What may be wrong with a collector, in order of precedence: a row shows the first that holds (contract, section 6). */
export const fleetConditions = [
  "revoked",
  "enrolling",
  "renewal_failed",
  "stale",
  "cert_expiring",
  "config_invalid",
  "unsupported_version",
  "queue_at_risk",
] as const;

/** One of `fleetConditions`. */
export type FleetCondition = (typeof fleetConditions)[number];

/** The nine states: the conditions, and `healthy` when none of them holds. */
export const fleetStates = [...fleetConditions, "healthy"] as const;

/** A derived health state. */
export type FleetState = (typeof fleetStates)[number];

/** How a running config relates to the desired one. */
export const driftKinds = ["in_sync", "drifted", "on_last_known_good", "no_desired", "unknown"] as const;

/** One of `driftKinds`. */
export type Drift = (typeof driftKinds)[number];

/** What the report can be sorted by; `identity` unless told. */
export const fleetSorts = [
  "identity",
  "last_heartbeat_at",
  "last_envelope_at",
  "certificate_not_after",
  "queue_bytes",
] as const;

/** One of `fleetSorts`. */
export type FleetSort = (typeof fleetSorts)[number];

/** What a CSV export is of: which rows each has, contract section 6. */
export const exportKinds = ["stale", "queue_risk", "renewal_failures", "config_drift"] as const;

/** One of `exportKinds`. */
export type ExportKind = (typeof exportKinds)[number];

/** What a certificate is at a moment: the first of these that applies (contract, section 3, "Revocation"). */
export const certificateStatuses = ["revoked", "expired", "replaced", "active"] as const;

/** One of `certificateStatuses`. */
export type CertificateStatus = (typeof certificateStatuses)[number];
