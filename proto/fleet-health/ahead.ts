import * as v from "valibot";
import { IsoTimestamp, WholeNumber } from "../values.ts";

/** The most hours to look ahead. */
export const aheadHoursMax = 336;
/** The most items of each kind. */
export const aheadNamesMax = 100;

const Count = WholeNumber();
const Hosts = { count: Count, query: v.string() };

/**
 * Response of `GET /v1/collector/health/ahead` (docs/fleet-page.md): what runs out by `until` unless somebody acts, with the figures that it is
 * computed from. `query` is that of the report, and of `/fleet`, whose rows are the counted hosts. Of each kind the soonest come first.
 */
export const FleetAhead = v.strictObject({
  generated_at: IsoTimestamp,
  until: IsoTimestamp,
  /** Hosts whose certificate expires by then, and that are late to renew it or cannot: expiring, failed, or silent. */
  certificates: v.strictObject({
    ...Hosts,
    first: v.array(
      v.strictObject({ identity_id: v.string(), device_id: v.string(), expires_at: IsoTimestamp }),
    ),
  }),
  /** Hosts whose queue is full by then if it goes on to grow as it did: `grew_bytes` in `grew_seconds`. */
  queues: v.strictObject({
    ...Hosts,
    fullest: v.array(
      v.strictObject({
        identity_id: v.string(),
        device_id: v.string(),
        bytes: Count,
        max_bytes: Count,
        oldest_record_age_seconds: Count,
        grew_bytes: Count,
        grew_seconds: Count,
        full_at: IsoTimestamp,
      }),
    ),
  }),
  /** Bootstrap tokens that can be used now and not then. */
  tokens: v.strictObject({
    count: Count,
    items: v.array(
      v.strictObject({
        id: v.string(),
        token_prefix: v.string(),
        policy_name: v.string(),
        expires_at: IsoTimestamp,
        /** Null without a limit. */
        uses_left: v.nullable(Count),
      }),
    ),
  }),
  /** Certificates of running cores: of their listeners, and the CA that signs those of hosts. */
  system_certificates: v.strictObject({
    count: Count,
    items: v.array(
      v.strictObject({ machine: v.string(), name: v.string(), expires_at: IsoTimestamp }),
    ),
  }),
  /** The stored telemetry; null while none is stored. Core does not see how much room its disk has. */
  telemetry: v.nullable(
    v.strictObject({
      bytes: Count,
      /** The days of which there is telemetry, with that of today in part. */
      days: v.number(),
      retention_days: Count,
      bytes_then: Count,
    }),
  ),
});

/** Response of `GET /v1/collector/health/ahead`. */
export type FleetAhead = v.InferOutput<typeof FleetAhead>;
