import * as v from "valibot";
import type { ReadCore } from "#functions/core.ts";
import { reportVolumeOf } from "#functions/domain/volume/report-volume.ts";
import { resource } from "#functions/http/resource.ts";
import { viewOf } from "#functions/http/route.ts";
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
          return reportView({
            ...found,
            generatedAt: rfc3339(now),
            from: rfc3339(found.range.fromMs),
            to: rfc3339(found.range.toMs),
            by: query.by,
            stepSeconds: found.stepMs / 1000,
            series: found.series.map((step) => ({ ...step, from: rfc3339(step.fromMs) })),
            parts: found.count,
            items: found.parts.map(({ host, ...part }) => ({ ...part, ...host, day: host })),
          });
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

const reportView = viewOf(VolumeReport);
