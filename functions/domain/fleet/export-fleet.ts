import type { ExportKind } from "../../../proto/fleet-health/vocabulary.ts";
import type { Core } from "../../core.ts";
import { findLabelKeys, type LabelKeys } from "../../store/fleet/labels.ts";
import { type FleetPosition, type FleetRow, findFleetPage } from "../../store/fleet/report.ts";
import type { FleetRules } from "../../store/fleet/rows.ts";
import type { Origin } from "../audit/audit-log.ts";
import { auditedExport, exportBatchRows } from "../audit/audited-export.ts";
import type { Operator } from "../operator/authenticate.ts";
import type { ViewQuery } from "./report.ts";
import { requireHistory } from "./require-history.ts";
import { readViewRules } from "./view-rules.ts";

/** An export that an operator requests. */
export interface FleetExport extends ViewQuery {
  kind: ExportKind;
  operator: Operator;
  origin: Origin;
  /** The filters as requested, for the audit log. */
  asked: Readonly<Record<string, unknown>>;
}

/** The rules of an export, the keys of its labels, and its rows in batches, each read on demand. */
export interface ExportedFleet {
  rules: FleetRules;
  labels: LabelKeys;
  batches: AsyncGenerator<FleetRow[], void, void>;
}

/**
 * Returns every row of an export (docs/fleet-health.md), in the order of identities, by the rules at the time of the call. Writes an audit
 * event with the number of rows before it reports the end to the reader, or when the reader stops earlier. Throws as reports do.
 */
export const exportFleet = async (
  core: Pick<Core, "db" | "clock" | "config" | "entropy">,
  order: FleetExport,
): Promise<ExportedFleet> => {
  const { kind, filter, at, operator, origin, asked } = order;
  const { rules } = await readViewRules(core, at);
  requireHistory({ filter }, rules);
  const labels = await findLabelKeys(core.db, rules, filter, kind);
  const target = { type: "fleet_export", id: kind };
  const entry = { operator, origin, action: "fleet.export", target, details: { kind, filters: asked } } as const;
  const batches = auditedExport(core, entry, (after: FleetPosition | null) => {
    const page = { sort: "identity", order: "asc", limit: exportBatchRows, after } as const;
    return findFleetPage(core.db, rules, filter, page, { kind });
  });
  return { rules, labels, batches };
};
