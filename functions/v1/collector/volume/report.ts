import * as v from "valibot";
import type { ReadCore } from "#functions/core.ts";
import { reportVolumeOf, type VolumePart } from "#functions/domain/volume/report-volume.ts";
import { resource } from "#functions/http/resource.ts";
import type { VolumeSplit } from "#functions/store/volume/report.ts";
import { QueryTime } from "#functions/v1/query-time.ts";
import { dayMs, rfc3339 } from "#kit/clock.ts";
import { QueryInteger } from "#proto/values.ts";
import { VolumeBy, VolumeReport } from "#proto/volume.ts";

/** The route that reports what core stored over time, and which hosts, kinds, sources or labels sent the most. */
export const volumeReports = (core: ReadCore) =>
  resource(core, "/v1/collector/volume", ({ get }) => ({
    reportVolume: get(
      "",
      "The volume that core stored over time, and its largest senders by host, kind, source or label; default: hosts, the last day",
      {
        query: Query,
        returns: ["The report", VolumeReport],
        handle: async ({ query }) => {
          const now = core.clock.now();
          const toMs = query.to?.(now) ?? now;
          const asked = { fromMs: query.from?.(now) ?? toMs - dayMs, toMs, limit: query.limit };
          const found = await reportVolumeOf(core, splitOf(query.by), asked);
          const { range, stepMs, series, total, count, parts, retentionDays, diskBytes } = found;
          return {
            generated_at: rfc3339(now),
            from: rfc3339(range.fromMs),
            to: rfc3339(range.toMs),
            by: query.by,
            step_seconds: stepMs / 1000,
            series: series.map(({ fromMs, envelopes, payloadBytes }) => ({
              from: rfc3339(fromMs),
              envelopes,
              payload_bytes: payloadBytes,
            })),
            total: { envelopes: total.envelopes, payload_bytes: total.payloadBytes },
            parts: count,
            retention_days: retentionDays,
            disk_bytes: diskBytes,
            items: parts.map(partView),
          };
        },
      },
    ),
  }));

const Query = v.strictObject({
  by: v.optional(VolumeBy, "host"),
  from: v.optional(QueryTime),
  to: v.optional(QueryTime),
  limit: v.optional(QueryInteger(1, 1000), "20"),
});

const labelPrefix = "label:";

const splitOf = (by: string): VolumeSplit =>
  by.startsWith(labelPrefix)
    ? { by: "label", key: by.slice(labelPrefix.length) }
    : { by: by as Exclude<VolumeSplit["by"], "label"> };

const partView = ({
  name,
  envelopes,
  payloadBytes,
  diskBytes,
  host,
}: VolumePart): VolumeReport["items"][number] => ({
  name,
  envelopes,
  payload_bytes: payloadBytes,
  disk_bytes: diskBytes,
  ...(host && {
    identity_id: host.identityId,
    device_id: host.deviceId,
    day: { day_bytes: host.dayBytes, usual_bytes: host.usualBytes },
  }),
});
