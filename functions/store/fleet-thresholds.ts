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
