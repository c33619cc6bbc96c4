import * as v from "valibot";
import { Moment } from "../values.ts";
import { FleetHealthRow } from "./row.ts";
import { fleetStates } from "./vocabulary.ts";

/** What the states are decided by. */
export const FleetThresholdsView = v.strictObject({
  heartbeat_interval_seconds: v.number(),
  /** No heartbeat for longer than this is stale. */
  stale_after_seconds: v.number(),
  /** For how long after enrollment a silent host is `enrolling` and not yet stale. */
  enrolling_seconds: v.number(),
  /** A certificate with a smaller part of its lifetime left, and no successor, is expiring. */
  cert_expiring_fraction: v.number(),
  /** Oldest supported SemVer version; null supports any. */
  min_version: v.nullable(v.string()),
});

/** What the states are decided by. */
export type FleetThresholdsView = v.InferOutput<typeof FleetThresholdsView>;

/** Counts over the fleet under the filters, the filter by state left out. */
export const FleetSummaryView = v.strictObject({
  enrolled: v.number(),
  /** Last heartbeat within `stale_after_seconds`. */
  active_recent_heartbeats: v.number(),
  /** Forwarded at least once. */
  forwarding: v.number(),
  /** Heartbeats, and has never forwarded: what `forwarding=never` finds. */
  never_forwarded: v.number(),
  by_state: v.record(v.picklist(fleetStates), v.number()),
});

/** Counts over the fleet. */
export type FleetSummaryView = v.InferOutput<typeof FleetSummaryView>;

/** Answer of `GET /v1/collector/health` (contract, section 6). */
export const FleetHealthReport = v.strictObject({
  generated_at: Moment,
  thresholds: FleetThresholdsView,
  summary: FleetSummaryView,
  items: v.array(FleetHealthRow),
  next_cursor: v.nullable(v.string()),
});

/** Answer of `GET /v1/collector/health`. */
export type FleetHealthReport = v.InferOutput<typeof FleetHealthReport>;
