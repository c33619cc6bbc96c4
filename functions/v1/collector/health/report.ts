import * as v from "valibot";
import { fleetStates } from "../../../../proto/fleet-health.ts";
import type { Core } from "../../../core.ts";
import { reportHealth } from "../../../domain/fleet/report-health.ts";
import { createCursorSeal } from "../../../http/cursor.ts";
import { scope } from "../../../http/guards.ts";
import { route } from "../../../http/route.ts";
import { Moment } from "../../shapes.ts";
import { filterOf, HealthQuery } from "./query.ts";
import { HealthRowView, healthRowView } from "./row.ts";

const HealthReportView = v.strictObject({
  generated_at: Moment,
  thresholds: v.strictObject({
    heartbeat_interval_seconds: v.number(),
    stale_after_seconds: v.number(),
    enrolling_seconds: v.number(),
    cert_expiring_fraction: v.number(),
    min_version: v.nullable(v.string()),
  }),
  summary: v.strictObject({
    enrolled: v.number(),
    active_recent_heartbeats: v.number(),
    forwarding: v.number(),
    never_forwarded: v.number(),
    by_state: v.record(v.picklist(fleetStates), v.number()),
  }),
  items: v.array(HealthRowView),
  next_cursor: v.nullable(v.string()),
});

/** `GET /v1/collector/health`: which hosts need a hand, and why. */
export const healthReportRoute = (core: Pick<Core, "config" | "db" | "clock">) => {
  const cursors = createCursorSeal(core.config.authTokenSecret);
  return route({
    method: "GET",
    path: "/v1/collector/health",
    operationId: "reportFleetHealth",
    summary: "The fleet health report: thresholds, summary, and a page of collectors with their states",
    guard: scope(core, "audit"),
    query: HealthQuery,
    replies: { 200: { description: "The report", schema: HealthReportView } },
    handle: async ({ query }) => {
      const { sort, order, limit } = query;
      const list = `health ${sort} ${order}`;
      const [value = "", id = ""] = query.cursor === undefined ? [] : await cursors.open(list, query.cursor);
      const after = query.cursor === undefined ? null : { value, id };
      const report = await reportHealth(core, { filter: filterOf(query), sort, order, limit, after });
      const { generatedAt, thresholds, summary } = report;
      return {
        status: 200,
        body: {
          generated_at: generatedAt.toISOString(),
          thresholds: {
            heartbeat_interval_seconds: thresholds.heartbeatIntervalSeconds,
            stale_after_seconds: thresholds.staleAfterSeconds,
            enrolling_seconds: thresholds.enrollingSeconds,
            cert_expiring_fraction: thresholds.certExpiringFraction,
            min_version: thresholds.versionMin,
          },
          summary: {
            enrolled: summary.enrolled,
            active_recent_heartbeats: summary.activeRecentHeartbeats,
            forwarding: summary.forwarding,
            never_forwarded: summary.neverForwarded,
            by_state: Object.fromEntries(fleetStates.map((state) => [state, summary.byState.get(state) ?? 0])),
          },
          items: report.rows.map((row) => healthRowView(row, thresholds, generatedAt)),
          next_cursor: report.next && (await cursors.seal(list, [report.next.value, report.next.id])),
        },
      };
    },
  });
};
