/** What hosts sent, by host, kind, source or label (docs/volume.md). */
import * as v from "valibot";
import { labelPair } from "./labels.ts";
import { Id, IsoTimestamp, NumberOrNull, TextOrNull } from "./values.ts";

/** The most days of a volume by kind, for which there are sums, and by anything else. */
export const volumeDaysMax = { kind: 400, others: 31 } as const;

/** Hourly volumes are kept for this many days; older ones are daily. */
export const volumeHoursDays = 14;

/** A host's volume is unusual from this multiple of its usual day on, and from this number of bytes. */
export const unusualVolume = { times: 10, bytesMin: 1024 * 1024 } as const;

/** Reports whether a host sends many times its usual volume. */
export const isUnusual = ({
  day_bytes: day,
  usual_bytes: usual,
}: {
  day_bytes: number;
  usual_bytes: number | null;
}) => usual !== null && day >= unusualVolume.bytesMin && day >= unusualVolume.times * usual;

/** The parameter `by`: `host`, `kind`, `source` or `label:KEY`. */
export const VolumeBy = v.pipe(
  v.string("must be given once"),
  v.check(
    (text) =>
      ["host", "kind", "source"].includes(text) ||
      (text.startsWith("label:") && labelPair.test(`${text.slice(6)}:*`)),
    "must be host, kind, source or label:KEY",
  ),
);

const volume = { envelopes: v.number(), payload_bytes: v.number() };

/** Bytes of a host in the last 24 whole hours, and on a usual day: the median of two weeks, null while it is not known. */
export const HostVolumeView = v.strictObject({
  day_bytes: v.number(),
  usual_bytes: NumberOrNull,
});

/** Response of `GET /v1/collector/volume`. */
export const VolumeReport = v.strictObject({
  generated_at: IsoTimestamp,
  /** The range that the figures are of: whole hours, or whole days where hours are no longer kept, and for sources. */
  from: IsoTimestamp,
  to: IsoTimestamp,
  by: v.string(),
  step_seconds: v.number(),
  /** What core stored of all hosts over time, the oldest first. */
  series: v.array(v.strictObject({ from: IsoTimestamp, ...volume })),
  /** Of all parts, as many as `parts`. */
  total: v.strictObject(volume),
  parts: v.number(),
  retention_days: NumberOrNull,
  /** On disk, what the range would take if it went on for all of retention; null without retention, or while the ratio is not known. */
  disk_bytes: NumberOrNull,
  /** Those with the most bytes first. */
  items: v.array(
    v.strictObject({
      /** An identity, a kind, `KIND SOURCE` or the value of a label; null for hosts without the label. */
      name: TextOrNull,
      ...volume,
      disk_bytes: NumberOrNull,
      /** Of hosts. */
      identity_id: v.optional(v.nullable(Id)),
      device_id: v.optional(TextOrNull),
      day: v.optional(HostVolumeView),
    }),
  ),
});

/** Response of `GET /v1/collector/volume`. */
export type VolumeReport = v.InferOutput<typeof VolumeReport>;
