import * as v from "valibot";
import type { ReadCore } from "#functions/core.ts";
import { reportTimeline } from "#functions/domain/fleet/report-timeline.ts";
import { resource } from "#functions/http/resource.ts";
import { viewOf } from "#functions/http/route.ts";
import { FleetTimelineView, timelineSpans, timelineSteps } from "#proto/fleet-health/timeline.ts";

/** The route that counts the whole fleet by state over the last day or month. */
export const timelineReports = (core: ReadCore) =>
  resource(core, "/v1/collector/health", ({ get }) => ({
    reportFleetTimeline: get(
      "/timeline",
      "How many hosts were in which state over the last 24 hours or 30 days, and when core could not receive",
      {
        query: v.strictObject({
          span: v.optional(v.picklist(timelineSpans, "must be 24h or 30d"), "24h"),
        }),
        returns: ["The counts", FleetTimelineView],
        handle: async ({ query: { span } }) => {
          const timeline = await reportTimeline(core, span);
          const stepSeconds = timelineSteps[span].stepMinutes * 60;
          const items = timeline.samples.map((each) =>
            sampleView({ ...each, byState: Object.fromEntries(each.byState) }),
          );
          const outages = timeline.outages.flatMap(({ beganAt, endedAt }) =>
            endedAt === null ? [] : [outageView({ beganAt, endedAt })],
          );
          return timelineView({ ...timeline, stepSeconds, items, outages });
        },
      },
    ),
  }));

const timelineView = viewOf(FleetTimelineView);
const sampleView = viewOf(FleetTimelineView.entries.items.item);
const outageView = viewOf(FleetTimelineView.entries.outages.item);
