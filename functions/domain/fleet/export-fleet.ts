import type { ConfiguredCore } from "#functions/core.ts";
import type { FleetRules } from "#functions/store/fleet/conditions.ts";
import { defineExport, type FleetRow } from "#functions/store/fleet/host-rows.ts";
import { findLabelKeys, type LabelKeys } from "#functions/store/fleet/labels.ts";
import type { ExportKind } from "#proto/fleet-health/vocabulary.ts";
import { auditedExport, type RequestedExport } from "../audit/audited-export.ts";
import type { ViewQuery } from "./report.ts";
import { readFleetView } from "./view-rules.ts";

/** A statement that reads hosts costs as much as 70 of its rows. */
const batchRows = 500;

/** An export that an operator requests. */
interface FleetExport extends ViewQuery, RequestedExport {
  kind: ExportKind;
}

/** The rules of an export, the keys of its labels, and its rows in batches, each read on demand. */
interface ExportedFleet {
  rules: FleetRules;
  labels: LabelKeys;
  batches: AsyncGenerator<FleetRow[], void, void>;
}

/**
 * Returns every row of an export (docs/fleet-health.md), in the order of identities, by the rules at the time of the call; audited. Throws as
 * reports do.
 */
export const exportFleet = async (
  core: ConfiguredCore,
  order: FleetExport,
): Promise<ExportedFleet> => {
  const { kind, filter, at } = order;
  const view = await readFleetView(core, { at, filter });
  const labels = await findLabelKeys(view, filter, kind);
  const entry = {
    action: "fleet.export",
    target: { type: "fleet_export", id: kind },
    details: { kind },
  } as const;
  const read = defineExport(view, filter, kind);
  const batches = auditedExport(core, order, entry, read, batchRows);
  return { rules: view.rules, labels, batches };
};
