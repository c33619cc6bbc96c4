import * as v from "valibot";
import { IsoTimestamp, NumberOrNull, TimestampOrNull } from "../values.ts";
import { fleetStates } from "./vocabulary.ts";

/** How the last 24 hours are divided: the times of `GET /v1/collector/health/trends`, and of the lines on pages. */
export const trendSteps = { stepSeconds: 900, count: 96 } as const;

/** A figure in each step, the oldest first; null where nobody counted it. */
const Points = v.array(NumberOrNull);

/** Response of `GET /v1/collector/health/trends` (docs/history.md): figures of the whole fleet over the last 24 hours. */
export const FleetTrends = v.strictObject({
  generated_at: IsoTimestamp,
  /** The end of the last step, which is not over yet. */
  until: IsoTimestamp,
  /** The time between two points. */
  step_seconds: v.number(),
  /** When the hosts of each step were counted: `at` of the report with this time finds these counts. Null before history begins. */
  sampled_at: v.array(TimestampOrNull),
  needs_attention: Points,
  forwarding: Points,
  by_state: v.record(v.picklist(fleetStates), Points),
  /** Hosts whose hour around the step is incomplete; null until it is settled. */
  incomplete: Points,
});

/** Response of `GET /v1/collector/health/trends`. */
export type FleetTrends = v.InferOutput<typeof FleetTrends>;
