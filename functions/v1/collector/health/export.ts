import * as v from "valibot";
import type { Core } from "#functions/core.ts";
import { exportFleet } from "#functions/domain/fleet/export-fleet.ts";
import { csvRoute, viewsOf } from "#functions/http/csv.ts";
import { filterFromQuery, filterQuery } from "#proto/fleet-health/filter.ts";
import { PastTime } from "#proto/fleet-health/past.ts";
import { exportKinds } from "#proto/fleet-health/vocabulary.ts";
import { exportColumns, labelColumns } from "./export-csv.ts";
import { healthRowView } from "./row.ts";

const ExportQuery = filterQuery({
  kind: v.picklist(exportKinds, "must be a kind of export"),
  at: v.optional(PastTime),
});

/** `GET /v1/collector/health/export.csv`: streams every row of a kind under the filters, with backpressure; audited. */
export const healthExportRoute = (core: Pick<Core, "config" | "db" | "clock" | "entropy">) =>
  csvRoute(core, {
    path: "/v1/collector/health/export.csv",
    operationId: "exportFleetHealth",
    summary:
      "All rows to which a kind of condition applies, whatever their state, under the report's filters",
    query: ExportQuery,
    problems: ["no_history", "filter_without_history"],
    open: async ({ query: { kind, at, ...query }, caller, origin }) => {
      const filter = filterFromQuery(query);
      const asked = at ? { ...query, at: at.toISOString() } : query;
      const order = { kind, filter, at, operator: caller, origin, asked };
      const { rules, labels, batches } = await exportFleet(core, order);
      return {
        name: `fleet-${kind}`,
        asked,
        at: rules.now,
        columns: [...exportColumns[kind], ...labelColumns(labels)],
        batches: viewsOf(batches, (row) => healthRowView(row, rules)),
      };
    },
  });
