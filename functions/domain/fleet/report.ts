import { type ExportLag, findExportLags } from "#functions/store/export/lag.ts";
import type { FleetRules } from "#functions/store/fleet/conditions.ts";
import {
  type FleetPageRequest,
  type FleetRow,
  findFleetPage,
} from "#functions/store/fleet/host-rows.ts";
import type { FleetPosition } from "#functions/store/fleet/select-hosts.ts";
import { type FleetSummary, summarizeFleet } from "#functions/store/fleet/summary.ts";
import {
  findRetentionPause,
  type RetentionPause,
} from "#functions/store/retention/retention-pause.ts";
import { shareNextRun } from "#kit/share-next-run.ts";
import type { FleetFilter } from "#proto/fleet-health/filter.ts";
import type { ViewCore } from "./rules.ts";
import { readFleetView } from "./view-rules.ts";

/** A page of the fleet with its rules, the summary of the whole fleet, and facts of the deployment that operators must know. */
export interface FleetReport {
  rules: FleetRules;
  /** The page and the summary include every change that was committed before. */
  asOf: Date;
  summary: FleetSummary;
  rows: FleetRow[];
  next: FleetPosition | null;
  /** How far each export is behind; none without an export (docs/export.md), and none of the past. */
  exports: ExportLag[];
  /** The jump of the database's clock that pauses retention; null without one, and of the past. */
  retentionPause: RetentionPause | null;
}

/** The subject of a report: the hosts of a filter, now or at a past time. */
export interface ViewQuery {
  filter: FleetFilter;
  at?: Date | undefined;
}

/**
 * Creates the function that returns the fleet health report (docs/fleet-health.md). The summary ignores the filter's states, so reports
 * that differ only in states, order or page share its scan; those of the same view share the page. Page and summary are separate queries,
 * each with the rules of its start, so a heartbeat between them may appear in only one. Throws 422 `no_history` and
 * `filter_without_history` for an unknown past.
 */
export const createHealthReports = (core: ViewCore) => {
  const summarize = shareNextRun(
    async ({ filter, at }: ViewQuery) => {
      const view = await readFleetView(core, { at, filter });
      return { asOf: view.rules.now, summary: await summarizeFleet(view, filter) };
    },
    ({ filter, at }) => JSON.stringify({ ...filter, states: undefined, at }),
    core.viewsShared,
  );
  const findPage = shareNextRun(
    async ({ filter, at, page }: ViewQuery & { page: FleetPageRequest }) => {
      const view = await readFleetView(core, { at, filter, sort: page.sort });
      return { rules: view.rules, ...(await findFleetPage(view, filter, page)) };
    },
    (query) => JSON.stringify(query),
    core.viewsShared,
  );
  return async (query: ViewQuery, page: FleetPageRequest): Promise<FleetReport> => {
    const isPast = query.at !== undefined;
    const [rows, counted, exports, retentionPause] = await Promise.all([
      // First, so that the database reads its rows while core counts.
      findPage({ ...query, page }),
      summarize(query),
      isPast ? [] : findExportLags(core.db),
      isPast ? null : findRetentionPause(core.db),
    ]);
    const asOf = new Date(Math.min(counted.asOf.getTime(), rows.rules.now.getTime()));
    return { asOf, summary: counted.summary, ...rows, exports, retentionPause };
  };
};
