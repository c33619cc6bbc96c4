import * as v from "valibot";
import { IsoTimestamp, TimestampOrNull } from "../values.ts";
import { fleetStates } from "./vocabulary.ts";

/** The spans of the timeline, and the time between its counts. */
export const timelineSteps = {
  "24h": { hours: 24, stepMinutes: 5 },
  "30d": { hours: 720, stepMinutes: 120 },
} as const;

/** A span of the timeline. */
export type TimelineSpan = keyof typeof timelineSteps;

/** The names of the spans. */
export const timelineSpans = Object.keys(timelineSteps) as [TimelineSpan, ...TimelineSpan[]];

/** Response of `GET /v1/collector/health/timeline` (docs/history.md): how many hosts of the whole fleet were in which state. */
export const FleetTimelineView = v.strictObject({
  from: IsoTimestamp,
  to: IsoTimestamp,
  /** The earliest time for `at`; null before history begins. */
  history_from: TimestampOrNull,
  /** The time between two counts; a longer one means that no core took counts. */
  step_seconds: v.number(),
  /** The oldest first. `at` of the report with the time of an item finds its counts. */
  items: v.array(
    v.strictObject({
      at: IsoTimestamp,
      needs_attention: v.number(),
      by_state: v.record(v.picklist(fleetStates), v.number()),
    }),
  ),
  /** When no core could receive. */
  outages: v.array(v.strictObject({ began_at: IsoTimestamp, ended_at: IsoTimestamp })),
});

/** Response of `GET /v1/collector/health/timeline`. */
export type FleetTimelineView = v.InferOutput<typeof FleetTimelineView>;
