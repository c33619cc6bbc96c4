import * as v from "valibot";
import { exportKinds } from "../../../../proto/fleet-health/vocabulary.ts";
import type { Core } from "../../../core.ts";
import { type ExportedFleet, exportFleet } from "../../../domain/fleet/export-fleet.ts";
import { csvRecord } from "../../../http/csv.ts";
import { scope } from "../../../http/guards.ts";
import { route } from "../../../http/route.ts";
import { textStream } from "../../../http/text-stream.ts";
import { type ExportColumn, exportColumns } from "./export-columns.ts";
import { filterFields, filterOf } from "./query.ts";
import { healthRowView } from "./row.ts";

const ExportQuery = v.strictObject({ kind: v.picklist(exportKinds, "must be a kind of export"), ...filterFields });

/** `GET /v1/collector/health/export.csv`: every row of a kind under the filters, streamed at the reader's pace; audited. */
export const healthExportRoute = (core: Pick<Core, "config" | "db" | "clock" | "entropy">) =>
  route({
    method: "GET",
    path: "/v1/collector/health/export.csv",
    operationId: "exportFleetHealth",
    summary: "All rows for which a kind of trouble holds, whatever state is shown first, under the report's filters",
    guard: scope(core, "audit"),
    query: ExportQuery,
    replies: { 200: { description: "RFC 4180, UTF-8, the first record names the columns", type: "text/csv" } },
    handle: async ({ query: { kind, ...asked }, caller, origin }) => {
      const fleet = await exportFleet(core, { kind, filter: filterOf(asked), operator: caller, origin, asked });
      const name = `fleet-${kind.replaceAll("_", "-")}-${fleet.rules.now.toISOString().slice(0, 10)}.csv`;
      return {
        status: 200,
        stream: {
          type: "text/csv; charset=utf-8; header=present",
          content: textStream(csvOf(fleet, exportColumns[kind])),
        },
        headers: { "Content-Disposition": `attachment; filename="${name}"` },
      };
    },
  });

const csvOf = async function* (
  { rules: { thresholds, now }, batches }: ExportedFleet,
  columns: readonly ExportColumn[],
): AsyncGenerator<string, void, void> {
  let text = csvRecord(columns.map(([name]) => name));
  for await (const rows of batches) {
    for (const row of rows) {
      const view = healthRowView(row, thresholds, now);
      text += csvRecord(columns.map(([, cell]) => cell(view)));
    }
    yield text;
    text = "";
  }
};
