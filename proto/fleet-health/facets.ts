import * as v from "valibot";
import { IsoTimestamp, NumberOrNull } from "../values.ts";
import { FleetThresholdsView } from "./report.ts";
import { driftKinds, exportKinds } from "./vocabulary.ts";

/** The most versions, platforms, keys of labels or values of a key that are listed by name; a field `…_other` counts the rest. */
export const facetValuesMax = 50;

/** The lower bounds of the heartbeat age buckets, in seconds; the last has no upper bound. */
export const heartbeatAgeBounds = [
  0, 30, 60, 120, 180, 300, 600, 1800, 3600, 21_600, 86_400, 604_800,
] as const;

/** The days from now on with a count of expiring certificates each. */
export const expiryDays = 30;

/** Response of `GET /v1/collector/health/facets` (docs/fleet-health.md): counts under the filters, including the one by state. */
export const FleetFacets = v.strictObject({
  generated_at: IsoTimestamp,
  /** As in the report. */
  at: v.optional(IsoTimestamp),
  thresholds: FleetThresholdsView,
  total: v.number(),
  /** By count, the largest first, then by name. */
  versions: v.array(
    v.strictObject({ version: v.string(), count: v.number(), supported: v.boolean() }),
  ),
  /** Collectors of versions beyond those listed. */
  versions_other: v.number(),
  /** By count, the largest first, then by name. */
  platforms: v.array(v.strictObject({ platform: v.string(), count: v.number() })),
  /** Collectors of platforms beyond those listed. */
  platforms_other: v.number(),
  /** The hosts that have a label of each key, the most frequent keys first, then by name. */
  labels: v.array(
    v.strictObject({
      key: v.string(),
      count: v.number(),
      /** By count, the largest first, then by name. */
      values: v.array(v.strictObject({ value: v.string(), count: v.number() })),
      /** Hosts with values beyond those listed. */
      values_other: v.number(),
    }),
  ),
  /** Keys beyond those listed. */
  label_keys_other: v.number(),
  /** Every kind, in the order of `driftKinds`. */
  drift: v.array(v.strictObject({ drift: v.picklist(driftKinds), count: v.number() })),
  heartbeat_age: v.strictObject({
    never: v.number(),
    /**
     * Ages above `from_seconds` up to `to_seconds`, as `heartbeat_older_than_seconds` counts; the first holds 0 too. Of the past one bucket has
     * all that were not stale.
     */
    buckets: v.array(
      v.strictObject({
        from_seconds: v.number(),
        to_seconds: NumberOrNull,
        count: v.number(),
      }),
    ),
  }),
  /**
   * When a collector's certificate or its successor expires, whichever is later: after `from` up to `to`, 24-hour days from
   * `generated_at` on, as `expires_within_seconds` counts.
   */
  certificate_expiry: v.strictObject({
    expired: v.number(),
    days: v.array(
      v.strictObject({ day: v.number(), from: IsoTimestamp, to: IsoTimestamp, count: v.number() }),
    ),
    later: v.number(),
  }),
  /** The rows of each CSV under these filters. */
  exports: v.strictObject(v.entriesFromList(exportKinds, v.number())),
});

/** Response of `GET /v1/collector/health/facets`. */
export type FleetFacets = v.InferOutput<typeof FleetFacets>;
