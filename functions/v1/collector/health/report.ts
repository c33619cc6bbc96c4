import * as v from "valibot";
import type { ReadCore } from "#functions/core.ts";
import { createHealthReports, type FleetReport } from "#functions/domain/fleet/report.ts";
import { listFields, resource } from "#functions/http/resource.ts";
import { viewOf } from "#functions/http/route.ts";
import { dayMs } from "#kit/clock.ts";
import { filterFromQuery, filterQuery, PastTime } from "#proto/fleet-health/filter.ts";
import {
  type ExportLagView,
  FleetHealthReport,
  FleetSummaryView,
} from "#proto/fleet-health/report.ts";
import { fleetSorts, fleetStates } from "#proto/fleet-health/vocabulary.ts";
import { outagesView } from "../outages.ts";
import { healthRowView, pastMarkOf, thresholdsView } from "./row.ts";

/** The route of the fleet health report. */
export const healthReports = (core: ReadCore) => {
  const reportHealth = createHealthReports(core);
  return resource(core, "/v1/collector/health", ({ get, cursors }) => ({
    reportFleetHealth: get(
      "",
      "The fleet health report: thresholds, summary, and a page of collectors with their states",
      {
        query: HealthQuery,
        returns: ["The report", FleetHealthReport],
        problems: ["no_history", "filter_without_history"],
        handle: async ({ query }) => {
          const { at, sort, order, limit } = query;
          const list = `health ${sort}${keyVersions[sort] ?? ""} ${order}${at ? ` ${at.toISOString()}` : ""}`;
          const [value = "", id] = await cursors.open(list, query.cursor);
          const after = id === undefined ? null : { value, id };
          const report = await reportHealth(
            { filter: filterFromQuery(query), at },
            { sort, order, limit, after },
          );
          const { now, thresholds, outages } = report.rules;
          const { asOf, summary, exports, retentionPause: pause } = report;
          return {
            generated_at: asOf.toISOString(),
            ...pastMarkOf(report.rules),
            thresholds: thresholdsView(thresholds),
            // Those of a day: hosts that a longer one left silent have their own evidence.
            ...outagesView(outages, now.getTime() - dayMs),
            summary: summaryView({
              ...summary,
              ...summary.byForwarding,
              neverForwarded: summary.byForwarding.never,
              byState: Object.fromEntries(
                fleetStates.map((state) => [state, summary.byState.get(state) ?? 0]),
              ),
            }),
            ...(exports.length > 0 ? { exports: exports.map(exportLagView) } : {}),
            ...(pause === null ? {} : { retention_paused: pauseView(pause) }),
            items: report.rows.map((row) => healthRowView(row, report.rules)),
            next_cursor: await cursors.seal(
              list,
              report.next && [report.next.value, report.next.id],
            ),
          };
        },
      },
    ),
  }));
};

/** The versions of sort keys that have changed: a cursor of another one is refused. */
const keyVersions: Readonly<Record<string, string>> = { severity: "-2" };

const HealthQuery = filterQuery({
  at: v.optional(PastTime),
  sort: v.optional(v.picklist(fleetSorts, "must be a column that the report sorts by"), "identity"),
  order: v.optional(v.picklist(["asc", "desc"], "must be asc or desc"), "asc"),
  ...listFields,
});

const summaryView = viewOf(FleetSummaryView);

const pauseView = ({ from, to, until }: NonNullable<FleetReport["retentionPause"]>) => ({
  jumped_from: from.toISOString(),
  jumped_to: to.toISOString(),
  until: until.toISOString(),
});

const exportLagView = (lag: FleetReport["exports"][number]): ExportLagView => ({
  name: lag.name,
  lag_seconds: lag.ageSeconds,
  lag_envelopes: lag.envelopes,
  ...(lag.unaccounted > 0 ? { unaccounted_envelopes: lag.unaccounted } : {}),
  running: lag.isRunning,
  dead_letters: lag.deadLetters,
  last_error: lag.lastError,
});
