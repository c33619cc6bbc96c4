import * as v from "valibot";
import { IsoTimestamp } from "../values.ts";
import { FleetHealthRow } from "./row.ts";
import { fleetStates } from "./vocabulary.ts";

/** The thresholds that decide the states. */
export const FleetThresholdsView = v.strictObject({
  heartbeat_interval_seconds: v.number(),
  /** No heartbeat for longer than this is stale. */
  stale_after_seconds: v.number(),
  /** How long after enrollment a silent host is `enrolling` and not yet stale. */
  enrolling_seconds: v.number(),
  /** A certificate with a smaller fraction of its lifetime left, and no successor, is expiring. */
  cert_expiring_fraction: v.number(),
  /** Oldest supported SemVer version; null supports any. */
  min_version: v.nullable(v.string()),
});

/** The thresholds that decide the states. */
export type FleetThresholdsView = v.InferOutput<typeof FleetThresholdsView>;

/** Counts over the fleet under the filters, except the one by state. */
export const FleetSummaryView = v.strictObject({
  enrolled: v.number(),
  /** Last heartbeat within `stale_after_seconds`. */
  active_recent_heartbeats: v.number(),
  /** Forwarded at least once. */
  forwarding: v.number(),
  /** Sends heartbeats and has never forwarded, as `forwarding=never` finds. */
  never_forwarded: v.number(),
  by_state: v.record(v.picklist(fleetStates), v.number()),
});

/** Counts over the fleet. */
export type FleetSummaryView = v.InferOutput<typeof FleetSummaryView>;

/** Response of `GET /v1/collector/health` (docs/fleet-health.md). */
export const FleetHealthReport = v.strictObject({
  generated_at: IsoTimestamp,
  thresholds: FleetThresholdsView,
  summary: FleetSummaryView,
  items: v.array(FleetHealthRow),
  next_cursor: v.nullable(v.string()),
});

/** Response of `GET /v1/collector/health`. */
export type FleetHealthReport = v.InferOutput<typeof FleetHealthReport>;
