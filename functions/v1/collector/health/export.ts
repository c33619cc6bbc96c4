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

/** Concurrent exports of one operator in this core: twice as many as the page starts. */
const exportsMax = 8;
/** A reader that reads nothing for this time has disconnected. */
const idleMs = 60_000;

/** `GET /v1/collector/health/export.csv`: streams every row of a kind under the filters, with backpressure; audited. */
export const healthExportRoute = (core: Pick<Core, "config" | "db" | "clock" | "entropy">) => {
  const slots = createSlots(exportsMax);
  return route({
    method: "GET",
    path: "/v1/collector/health/export.csv",
    operationId: "exportFleetHealth",
    summary: "All rows to which a kind of condition applies, whatever their state, under the report's filters",
    guard: scope(core, "audit"),
    query: ExportQuery,
    problems: ["too_many_exports"],
    replies: { 200: { description: "RFC 4180, UTF-8, the first record names the columns", type: "text/csv" } },
    handle: async ({ query: { kind, ...asked }, caller, origin }) => {
      const release = slots(caller.userId);
      if (release === null) throw new Problem("too_many_exports", { retryAfterSeconds: idleMs / 1000 });
      const fleet = await exportFleet(core, {
        kind,
        filter: filterFromQuery(asked),
        operator: caller,
        origin,
        asked,
      }).catch((error: unknown) => {
        release();
        throw error;
      });
      const name = `fleet-${kind.replaceAll("_", "-")}-${fleet.rules.now.toISOString().slice(0, 10)}.csv`;
      return {
        status: 200,
        stream: {
          type: "text/csv; charset=utf-8; header=present",
          content: textStream(withSlot(csvOf(fleet, exportColumns[kind]), release), { clock: core.clock, idleMs }),
        },
        headers: { "Content-Disposition": `attachment; filename="${name}"` },
      };
    },
  });
};

/** Yields the texts of an export, and releases its slot at their end. */
const withSlot = async function* (
  texts: AsyncIterable<string>,
  release: () => void,
): AsyncGenerator<string, void, void> {
  try {
    yield* texts;
  } finally {
    release();
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
