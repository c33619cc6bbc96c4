import * as v from "valibot";
import { Id, IsoTimestamp, OutageView, TextOrNull } from "../values.ts";
import { FleetHealthRow } from "./columns.ts";
import { FleetThresholdsView } from "./report.ts";

/** The most events in a collector's history. */
export const historyMax = 100;

/** An audit event of a collector. */
export const FleetHistoryEvent = v.strictObject({
  at: IsoTimestamp,
  action: v.string(),
  actor: v.strictObject({
    type: v.picklist(["operator", "workload", "collector", "system"]),
    display: v.string(),
  }),
  outcome: v.picklist(["success", "failure"]),
  reason_code: TextOrNull,
  details: v.record(v.string(), v.unknown()),
});

/** An audit event of a collector. */
export type FleetHistoryEvent = v.InferOutput<typeof FleetHistoryEvent>;

/** Response of `GET /v1/collector/health/{identity_id}` (docs/fleet-health.md). */
export const FleetHealthDetail = v.strictObject({
  generated_at: IsoTimestamp,
  /** As in the report. */
  at: v.optional(IsoTimestamp),
  thresholds: FleetThresholdsView,
  /** The newest outages of core since the host enrolled, the oldest first; absent without one. */
  outages: v.optional(v.array(OutageView)),
  item: FleetHealthRow,
  /** Every error of the config file, then `warning: …` for what its sources do not read, as the last heartbeat reports them. */
  config_errors: v.array(v.string()),
  /** What an agent that speaks OpAMP reports as its config, without secrets; absent without a report, and for other hosts. */
  effective_config: v.optional(v.string()),
  /** The policy of its last enrollment. `deny` rejects an enrollment while the host has an active certificate. */
  policy: v.strictObject({
    id: Id,
    name: v.string(),
    reenrollment: v.picklist(["deny", "replace"]),
  }),
  /** Its losses in exports whose backend rejected more of its records than are kept; absent without losses (docs/export.md). */
  export_losses: v.optional(
    v.array(
      v.strictObject({
        export: v.string(),
        envelopes: v.number(),
        reason: v.string(),
        last_at: IsoTimestamp,
      }),
    ),
  ),
  /** Newest first: events of the identity, its certificates and its config. */
  history: v.array(FleetHistoryEvent),
});

/** Response of `GET /v1/collector/health/{identity_id}`. */
export type FleetHealthDetail = v.InferOutput<typeof FleetHealthDetail>;
