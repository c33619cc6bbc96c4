import * as v from "valibot";
import { Moment } from "../values.ts";
import { FleetThresholdsView } from "./report.ts";
import { FleetHealthRow } from "./row.ts";

/** Events of a collector's history at most. */
export const historyMax = 100;

/** Something that happened to a collector, from the audit log. */
export const FleetHistoryEvent = v.strictObject({
  at: Moment,
  action: v.string(),
  actor: v.strictObject({ type: v.picklist(["operator", "collector", "system"]), display: v.string() }),
  outcome: v.picklist(["success", "failure"]),
  reason_code: v.nullable(v.string()),
  details: v.record(v.string(), v.unknown()),
});

/** Something that happened to a collector. */
export type FleetHistoryEvent = v.InferOutput<typeof FleetHistoryEvent>;

/** Answer of `GET /v1/collector/health/{identity_id}` (contract, section 6). */
export const FleetHealthDetail = v.strictObject({
  generated_at: Moment,
  thresholds: FleetThresholdsView,
  item: FleetHealthRow,
  /** Newest first: events of the identity, its certificates and its config. */
  history: v.array(FleetHistoryEvent),
});

/** Answer of `GET /v1/collector/health/{identity_id}`. */
export type FleetHealthDetail = v.InferOutput<typeof FleetHealthDetail>;
