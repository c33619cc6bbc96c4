import * as v from "valibot";
import type { ConfigAssignment, ListedConfig } from "../../../../proto/fleet-health/config-report.ts";
import type { Core } from "../../../core.ts";
import { exportAssignments, exportConfigs } from "../../../domain/config/config-reports.ts";
import { type CsvColumn, csvRoute, viewsOf } from "../../../http/csv.ts";
import { IdParams } from "../../shapes.ts";
import { assignmentView, listedConfigView } from "./config.ts";
import { configFilterFields } from "./list.ts";
import { assignmentFilterFields, assignmentFilterOf } from "./list-assignments.ts";

type ExportCore = Pick<Core, "config" | "db" | "clock" | "entropy">;

const configColumns: readonly CsvColumn<ListedConfig>[] = [
  ["id", ({ id }) => id],
  ["config_hash", ({ config_hash }) => config_hash],
  ["name", ({ name }) => name],
  ["size_bytes", ({ size_bytes }) => size_bytes],
  ["created_at", ({ created_at }) => created_at],
  ["created_by", ({ created_by }) => created_by],
  ["created_by_email", ({ created_by_email }) => created_by_email],
  ["desired", ({ hosts }) => hosts.desired],
  ["running", ({ hosts }) => hosts.running],
  ["failed", ({ hosts }) => hosts.failed],
  ["drifted", ({ hosts }) => hosts.drifted],
  ["silent", ({ hosts }) => hosts.silent],
  ["silent_running", ({ hosts }) => hosts.silent_running],
  ["undesired", ({ hosts }) => hosts.undesired],
  ["finished_at", ({ hosts }) => hosts.finished_at],
];

const assignmentColumns: readonly CsvColumn<ConfigAssignment>[] = [
  ["identity_id", ({ identity_id }) => identity_id],
  ["identity", ({ identity }) => identity],
  ["device_id", ({ device_id }) => device_id],
  ["assigned_at", ({ assigned_at }) => assigned_at],
  ["assigned_by", ({ assigned_by }) => assigned_by],
  ["assigned_by_email", ({ assigned_by_email }) => assigned_by_email],
  ["ended_at", ({ ended_at }) => ended_at],
  ["progress", ({ progress }) => progress],
  ["applied_at", ({ applied_at }) => applied_at],
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
      return { name: "configs", asked, columns: configColumns, batches: viewsOf(configs, listedConfigView) };
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
