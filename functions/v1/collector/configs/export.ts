import * as v from "valibot";
import type { Core } from "#functions/core.ts";
import { exportAssignments, exportConfigs } from "#functions/domain/config/config-reports.ts";
import { type CsvColumn, csvRoute, memberColumns, viewsOf } from "#functions/http/csv.ts";
import { IdParams } from "#functions/http/resource.ts";
import type { ConfigAssignment, ListedConfig } from "#proto/fleet-health/config-report.ts";
import { assignmentView, listedConfigView } from "./config.ts";
import { assignmentFilterFields, assignmentFilterOf, configFilterFields } from "./read.ts";

type ExportCore = Pick<Core, "config" | "db" | "clock" | "entropy">;

const counts = [
  "desired",
  "running",
  "failed",
  "drifted",
  "silent",
  "silent_running",
  "undesired",
] as const;

const configColumns: readonly CsvColumn<ListedConfig>[] = [
  ...memberColumns<ListedConfig>("id", "config_hash", "name", "size_bytes"),
  ...memberColumns<ListedConfig>("created_at", "created_by", "created_by_email"),
  ...[...counts, "finished_at" as const].map(
    (figure): CsvColumn<ListedConfig> => [figure, ({ hosts }) => hosts[figure]],
  ),
];

const assignmentColumns = [
  ...memberColumns<ConfigAssignment>("identity_id", "identity", "device_id"),
  ...memberColumns<ConfigAssignment>("assigned_at", "assigned_by", "assigned_by_email"),
  ...memberColumns<ConfigAssignment>("ended_at", "progress", "applied_at"),
];

/** `GET /v1/collector/configs/export.csv`: every config of the list and its hosts; audited. */
export const exportConfigsRoute = (core: ExportCore) =>
  csvRoute(core, {
    path: "/v1/collector/configs/export.csv",
    operationId: "exportCollectorConfigs",
    summary: "All configs under the list's filter as CSV, newest first",
    query: v.strictObject(configFilterFields),
    open: async ({ query: asked, caller: operator, origin }) => {
      const configs = exportConfigs(core, asked.q, { operator, origin, asked });
      return {
        name: "configs",
        asked,
        columns: configColumns,
        batches: viewsOf(configs, listedConfigView),
      };
    },
  });

/** `GET /v1/collector/configs/{id}/assignments/export.csv`: every assignment of a config under the list's filter; audited. */
export const exportAssignmentsRoute = (core: ExportCore) =>
  csvRoute(core, {
    path: "/v1/collector/configs/:id/assignments/export.csv",
    operationId: "exportConfigAssignments",
    summary: "All assignments of a config under the list's filters as CSV, newest first",
    params: IdParams,
    query: v.strictObject(assignmentFilterFields),
    problems: ["not_found"],
    open: async ({ params, query: asked, caller: operator, origin }) => {
      const filter = { ...assignmentFilterOf(asked), configId: params.id };
      const assignments = await exportAssignments(core, filter, { operator, origin, asked });
      return {
        name: "config-assignments",
        asked: { config: params.id, ...asked },
        columns: assignmentColumns,
        batches: viewsOf(assignments, assignmentView),
      };
    },
  });
