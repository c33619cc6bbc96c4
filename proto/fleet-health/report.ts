import * as v from "valibot";
import { IsoTimestamp, OutageView, TextOrNull } from "../values.ts";
import { FleetHealthRow } from "./columns.ts";
import { fleetStates } from "./vocabulary.ts";

/** The thresholds that decide the states. */
export const FleetThresholdsView = v.strictObject({
  heartbeat_interval_seconds: v.number(),
  /** No heartbeat for longer than this is stale. */
  stale_after_seconds: v.number(),
  /** A host whose last envelope is older than this does not forward now. */
  forwarding_seconds: v.number(),
  /** How long after enrollment a silent host is `enrolling` and not yet stale. */
  enrolling_seconds: v.number(),
  /** After an outage of core, the silence of hosts counts again this much later; absent from an earlier core. */
  return_seconds: v.optional(v.number()),
  /** A certificate with a smaller fraction of its lifetime left, and no successor, is expiring. */
  cert_expiring_fraction: v.number(),
  /** Oldest supported SemVer version; null supports any. */
  min_version: TextOrNull,
  /** The same for agents that speak OpAMP; absent from an earlier core. */
  otelcol_min_version: v.optional(TextOrNull),
});

/** The thresholds that decide the states. */
export type FleetThresholdsView = v.InferOutput<typeof FleetThresholdsView>;

/** Counts over the fleet under the filters, except the one by state. */
export const FleetSummaryView = v.strictObject({
  enrolled: v.number(),
  /** As `attention=needed` finds. */
  needs_attention: v.number(),
  /** Not revoked, and the last heartbeat is within `stale_after_seconds`, as `heartbeat=recent` finds. */
  active_recent_heartbeats: v.number(),
  /** An envelope within `forwarding_seconds`, as `forwarding=forwarding` finds. */
  forwarding: v.number(),
  /** Has forwarded before, and now only sends heartbeats or queues records, as `forwarding=stopped` finds. */
  stopped: v.number(),
  /** Has sent heartbeats and never forwarded, as `forwarding=never` finds. */
  never_forwarded: v.number(),
  by_state: v.record(v.picklist(fleetStates), v.number()),
});

/** Counts over the fleet. */
export type FleetSummaryView = v.InferOutput<typeof FleetSummaryView>;

/** How far `svc-server export` is behind under one name (docs/export.md). */
export const ExportLagView = v.strictObject({
  name: v.string(),
  /** Age of the oldest committed envelope that is not exported; 0 without one. */
  lag_seconds: v.number(),
  /** Those envelopes; estimated above 100,000. */
  lag_envelopes: v.number(),
  /** Of those, envelopes that the export has passed over: stored, and never read; absent without one. */
  unaccounted_envelopes: v.optional(v.number()),
  running: v.boolean(),
  /** Envelopes that the backend rejected for good. */
  dead_letters: v.number(),
  /** Why its last request failed, with the backend's message; null while requests succeed. */
  last_error: TextOrNull,
});

/** How far an export is behind. */
export type ExportLagView = v.InferOutput<typeof ExportLagView>;

/** Response of `GET /v1/collector/health` (docs/fleet-health.md). */
export const FleetHealthReport = v.strictObject({
  /** The time that the states are of. */
  generated_at: IsoTimestamp,
  /** The requested past time, of which the whole report is. Absent for now. */
  at: v.optional(IsoTimestamp),
  thresholds: FleetThresholdsView,
  /** Outages of core in the last 24 hours, the oldest first; absent without one. */
  outages: v.optional(v.array(OutageView)),
  summary: FleetSummaryView,
  /** The exports of the deployment, whatever the filters; absent where nothing was ever exported. */
  exports: v.optional(v.array(ExportLagView)),
  /** Retention is paused until then, after a jump of the database's clock; absent otherwise. */
  retention_paused: v.optional(
    v.strictObject({ jumped_from: IsoTimestamp, jumped_to: IsoTimestamp, until: IsoTimestamp }),
  ),
  items: v.array(FleetHealthRow),
  next_cursor: TextOrNull,
});

/** Response of `GET /v1/collector/health`. */
export type FleetHealthReport = v.InferOutput<typeof FleetHealthReport>;
