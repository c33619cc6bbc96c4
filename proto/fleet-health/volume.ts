import * as v from "valibot";
import { Id, IsoTimestamp } from "../values.ts";

/** The hours of a host's volume, the current one included. */
export const volumeHours = 48;

/** The kinds by which envelopes are counted: those that docs/protocol.md names, and all others together. */
export const volumeKinds = ["otel_span", "otel_log", "otel_metric", "log_line", "other"] as const;

/** One of `volumeKinds`. */
export type VolumeKind = (typeof volumeKinds)[number];

/** Response of `GET /v1/collector/health/{identity_id}/volume`: what core stored for a host, by hour and kind. */
export const HostVolume = v.strictObject({
  generated_at: IsoTimestamp,
  identity_id: Id,
  /** Every one of the last `volumeHours` hours, the oldest first; the last has not ended. */
  hours: v.array(
    v.strictObject({
      /** The start of the hour. */
      from: IsoTimestamp,
      /** Kinds with an envelope in this hour, in the order of `volumeKinds`. */
      kinds: v.array(
        v.strictObject({
          kind: v.picklist(volumeKinds),
          envelopes: v.number(),
          payload_bytes: v.number(),
        }),
      ),
    }),
  ),
});

/** Response of `GET /v1/collector/health/{identity_id}/volume`. */
export type HostVolume = v.InferOutput<typeof HostVolume>;
