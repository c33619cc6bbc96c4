import * as v from "valibot";
import { createSlots } from "../../../../kit/slots.ts";
import { filterFromQuery, fleetFilterFields } from "../../../../proto/fleet-health/filter.ts";
import { exportKinds } from "../../../../proto/fleet-health/vocabulary.ts";
import type { Core } from "../../../core.ts";
import { type ExportedFleet, exportFleet } from "../../../domain/fleet/export-fleet.ts";
import { scope } from "../../../http/guards.ts";
import { route } from "../../../http/route.ts";
import { textStream } from "../../../http/text-stream.ts";
import { Problem } from "../../../problems.ts";
import { csvRecord, type ExportColumn, exportColumns } from "./export-csv.ts";
import { healthRowView } from "./row.ts";

const ExportQuery = v.strictObject({ kind: v.picklist(exportKinds, "must be a kind of export"), ...fleetFilterFields });

/** Of one operator at once, in this core: twice what the page offers. */
const exportsMax = 8;
/** Within this time a reader takes a batch, or is taken to be gone. */
const idleMs = 60_000;

/**
 * `GET /v1/collector/health/export.csv`: every row of a kind under the filters, streamed at the reader's pace, which may be slow and not
 * none at all; audited.
 */
export const healthExportRoute = (core: Pick<Core, "config" | "db" | "clock" | "entropy">) => {
  const slots = createSlots(exportsMax);
  return route({
    method: "GET",
    path: "/v1/collector/health/export.csv",
    operationId: "exportFleetHealth",
    summary: "All rows for which a kind of trouble holds, whatever state is shown first, under the report's filters",
    guard: scope(core, "audit"),
    query: ExportQuery,
    problems: ["too_many_exports"],
    replies: { 200: { description: "RFC 4180, UTF-8, the first record names the columns", type: "text/csv" } },
    handle: async ({ query: { kind, ...asked }, caller, origin }) => {
      const leave = slots(caller.userId);
      if (leave === null) throw new Problem("too_many_exports", { retryAfterSeconds: idleMs / 1000 });
      const fleet = await exportFleet(core, {
        kind,
        filter: filterFromQuery(asked),
        operator: caller,
        origin,
        asked,
      }).catch((error: unknown) => {
        leave();
        throw error;
      });
      const name = `fleet-${kind.replaceAll("_", "-")}-${fleet.rules.now.toISOString().slice(0, 10)}.csv`;
      return {
        status: 200,
        stream: {
          type: "text/csv; charset=utf-8; header=present",
          content: textStream(inPlace(csvOf(fleet, exportColumns[kind]), leave), { clock: core.clock, idleMs }),
        },
        headers: { "Content-Disposition": `attachment; filename="${name}"` },
      };
    },
  });
};

/** The texts of an export, and the end of its place with theirs. */
const inPlace = async function* (texts: AsyncIterable<string>, leave: () => void): AsyncGenerator<string, void, void> {
  try {
    yield* texts;
  } finally {
    leave();
  }
};

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
