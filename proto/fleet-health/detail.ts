import * as v from "valibot";
import { IsoTimestamp } from "../values.ts";
import { FleetThresholdsView } from "./report.ts";
import { FleetHealthRow } from "./row.ts";

/** The most events in a collector's history. */
export const historyMax = 100;

/** An audit event of a collector. */
export const FleetHistoryEvent = v.strictObject({
  at: IsoTimestamp,
  action: v.string(),
  actor: v.strictObject({ type: v.picklist(["operator", "collector", "system"]), display: v.string() }),
  outcome: v.picklist(["success", "failure"]),
  reason_code: v.nullable(v.string()),
  details: v.record(v.string(), v.unknown()),
});

/** An audit event of a collector. */
export type FleetHistoryEvent = v.InferOutput<typeof FleetHistoryEvent>;

/** Response of `GET /v1/collector/health/{identity_id}` (docs/fleet-health.md). */
export const FleetHealthDetail = v.strictObject({
  generated_at: IsoTimestamp,
  thresholds: FleetThresholdsView,
  item: FleetHealthRow,
  /** Newest first: events of the identity, its certificates and its config. */
  history: v.array(FleetHistoryEvent),
});

/** Response of `GET /v1/collector/health/{identity_id}`. */
export type FleetHealthDetail = v.InferOutput<typeof FleetHealthDetail>;
