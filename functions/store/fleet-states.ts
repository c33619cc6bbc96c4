/** The nine states, in order of precedence: a row shows the first that holds (contract, section 6). */
export const fleetStates = [
  "revoked",
  "enrolling",
  "renewal_failed",
  "stale",
  "cert_expiring",
  "config_invalid",
  "unsupported_version",
  "queue_at_risk",
  "healthy",
] as const;

/** A derived health state. */
export type FleetState = (typeof fleetStates)[number];

/** How a running config relates to the desired one. */
export const driftKinds = ["in_sync", "drifted", "on_last_known_good", "no_desired", "unknown"] as const;

/** One of `driftKinds`. */
export type Drift = (typeof driftKinds)[number];

/** What the states are decided by; the report states them with its answer. */
export interface FleetThresholds {
  heartbeatIntervalSeconds: number;
  /** No heartbeat for longer than this is stale. */
  staleAfterSeconds: number;
  /** For how long after enrollment a silent host is `enrolling` and not yet stale. */
  enrollingSeconds: number;
  /** A certificate with a smaller part of its lifetime left, and no successor, is expiring. */
  certExpiringFraction: number;
  /** Oldest supported SemVer version; null supports any. */
  versionMin: string | null;
}
