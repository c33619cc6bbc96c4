import type { FleetFilter } from "../../../proto/fleet-health/filter.ts";
import type { ExportKind } from "../../../proto/fleet-health/vocabulary.ts";
import type { Core } from "../../core.ts";
import { type FleetPosition, type FleetRow, findFleetPage } from "../../store/fleet-report.ts";
import type { FleetRules } from "../../store/fleet-rows.ts";
import { type Origin, operatorActor, recordAudit } from "../audit/audit-log.ts";
import type { Operator } from "../operator/authenticate.ts";
import { readFleetRules } from "./report.ts";

/** Rows per batch: enough to amortise a scan, few enough for memory and the event loop. */
const batchRows = 1000;

/** An export that an operator requests. */
export interface FleetExport {
  kind: ExportKind;
  filter: FleetFilter;
  operator: Operator;
  origin: Origin;
  /** The filters as requested, for the audit log. */
  asked: Readonly<Record<string, unknown>>;
}

/** The rules of an export, and its rows in batches, each read on demand. */
export interface ExportedFleet {
  rules: FleetRules;
  batches: AsyncGenerator<FleetRow[], void, void>;
}

/**
 * Returns every row of an export (docs/fleet-health.md), in the order of identities, by the rules at the time of the call. Writes an audit
 * event with the number of rows before it reports the end to the reader, or when the reader stops earlier.
 */
export const exportFleet = async (
  core: Pick<Core, "db" | "clock" | "config" | "entropy">,
  order: FleetExport,
): Promise<ExportedFleet> => {
  const rules = await readFleetRules(core);
  return { rules, batches: readBatches(core, rules, order) };
};

const readBatches = async function* (
  core: Pick<Core, "db" | "clock" | "entropy">,
  rules: FleetRules,
  { kind, filter, operator, origin, asked }: FleetExport,
): AsyncGenerator<FleetRow[], void, void> {
  let given = 0;
  let reason: string | null = "the reader disconnected before the end";
  try {
    let after: FleetPosition | null = null;
    do {
      const page = { sort: "identity", order: "asc", limit: batchRows, after } as const;
      const batch: Awaited<ReturnType<typeof findFleetPage>> = await findFleetPage(core.db, rules, filter, page, kind);
      given += batch.rows.length;
      yield batch.rows;
      after = batch.next;
    } while (after !== null);
    reason = null;
  } catch (error) {
    reason = "a batch could not be read";
    throw error;
  } finally {
    const entry = {
      actor: operatorActor(operator),
      action: "fleet.export",
      target: { type: "fleet_export", id: kind },
      outcome: reason === null ? "success" : "failure",
      reason,
      origin,
      details: { kind, filters: asked, rows: given },
    } as const;
    await core.db.transaction((tx) => recordAudit(tx, core, entry));
  }
};
