import { shareNextRun } from "../../../kit/share-next-run.ts";
import type { FleetFilter } from "../../../proto/fleet-health/filter.ts";
import { type ExportLag, findExportLags } from "../../store/export/lag.ts";
import { type FleetPageRequest, type FleetPosition, type FleetRow, findFleetPage } from "../../store/fleet/report.ts";
import type { FleetRules } from "../../store/fleet/rows.ts";
import { type FleetSummary, summarizeFleet } from "../../store/fleet/summary.ts";
import { findRetentionPause, type RetentionPause } from "../../store/retention/retention-pause.ts";
import { readFleetRules, type ViewCore, viewsShared } from "./rules.ts";

/** A page of the fleet with its rules, the summary of the whole fleet, and what of the deployment its operators must know. */
export interface FleetReport {
  rules: FleetRules;
  summary: FleetSummary;
  rows: FleetRow[];
  next: FleetPosition | null;
  /** How far each export is behind; none where nothing was ever exported (docs/export.md). */
  exports: ExportLag[];
  /** The jump of the database's clock that holds retention back; null without one. */
  retentionPause: RetentionPause | null;
}

/**
 * Creates the function that returns the fleet health report (docs/fleet-health.md). The summary applies the filter except its states, so
 * reports that differ in states, order or page share the scan that counts it; those of the same view share the page. Page and summary are
 * separate queries, each with the rules of its start: a heartbeat that arrives between them may show in one only.
 */
export const createHealthReports = (core: ViewCore) => {
  const summarize = shareNextRun(
    async (filter: FleetFilter) => summarizeFleet(core.db, await readFleetRules(core), filter, core.fleetColumns),
    (filter) => JSON.stringify({ ...filter, states: undefined }),
    viewsShared(core),
  );
  const findPage = shareNextRun(
    async ({ filter, page }: { filter: FleetFilter; page: FleetPageRequest }) => {
      const rules = await readFleetRules(core);
      return { rules, ...(await findFleetPage(core.db, rules, filter, page, { columns: core.fleetColumns })) };
    },
    (view) => JSON.stringify(view),
    viewsShared(core),
  );
  return async (filter: FleetFilter, page: FleetPageRequest): Promise<FleetReport> => {
    const [summary, found, exports, retentionPause] = await Promise.all([
      summarize(filter),
      findPage({ filter, page }),
      findExportLags(core.db),
      findRetentionPause(core.db),
    ]);
    return { summary, ...found, exports, retentionPause };
  };
};
