import * as v from "valibot";
import type { ConfiguredCore, ReadCore } from "#functions/core.ts";
import {
  browseAssignments,
  browseConfigs,
  describeConfig,
  exportAssignments,
  exportConfigs,
  findUnstored,
} from "#functions/domain/config/config-reports.ts";
import { type CsvColumns, csvRoute, memberColumns, viewsOf } from "#functions/http/csv.ts";
import { IdParams, resource, scope } from "#functions/http/resource.ts";
import { route, viewOf } from "#functions/http/route.ts";
import type { AssignmentFilter, ConfigFilter } from "#functions/store/config/hosts.ts";
import { minuteMs } from "#kit/clock.ts";
import {
  AssignmentBatch,
  AssignmentPage,
  type ConfigAssignment,
  ConfigDetail,
  ConfigList,
  type ListedConfig,
  UnstoredConfigs,
} from "#proto/fleet-health/config-report.ts";
import { agentKinds, DateFromTimestamp, Id, Identifier } from "#proto/values.ts";
import { assignmentView, listedConfigView } from "./config.ts";

/** The query fields that select configs: `q` is part of a name, or the start of a hash. */
const configFilterFields = {
  q: v.optional(Identifier(120)),
  kind: v.optional(v.picklist(agentKinds, `must be one of ${agentKinds.join(", ")}`)),
};

const configFilterOf = ({
  q: text,
  kind,
}: v.InferOutput<v.ObjectSchema<typeof configFilterFields, undefined>>): ConfigFilter => ({
  text,
  kind,
});

/** The query fields that select assignments. `current=true`: not replaced or removed; `since` and `until`: when they were made. */
const assignmentFilterFields = {
  current: v.optional(v.picklist(["true", "false"], "must be true or false")),
  assigned_by: v.optional(Id),
  since: v.optional(DateFromTimestamp),
  until: v.optional(DateFromTimestamp),
};

/** Returns the filter of parsed query fields. */
export const assignmentFilterOf = ({
  current,
  assigned_by: assignedBy,
  since,
  until,
}: v.InferOutput<v.ObjectSchema<typeof assignmentFilterFields, undefined>>): AssignmentFilter => ({
  current: current && current === "true",
  assignedBy,
  since,
  until,
});

const batchView = viewOf(AssignmentBatch);
const unstoredView = viewOf(UnstoredConfigs.entries.items.item);

/** The routes that read configs; each scans the fleet. */
export const configReports = (core: ReadCore) =>
  resource(core, "/v1/collector/configs", ({ list, get }) => ({
    listCollectorConfigs: list(
      "",
      "Published collector configs, newest first, and how many hosts should run and do run each",
      {
        filter: configFilterFields,
        returns: ["A page of configs", ConfigList],
        find: (page, { query }) => browseConfigs(core, configFilterOf(query), page),
        view: listedConfigView,
      },
    ),

    listUnstoredConfigs: get(
      "/unstored",
      "Hashes of configs that hosts run and that were never published",
      {
        returns: ["The hashes with the most hosts", UnstoredConfigs],
        handle: async () => {
          const { now, rows, hashes } = await findUnstored(core);
          return { generated_at: now.toISOString(), hashes, items: rows.map(unstoredView) };
        },
      },
    ),

    listConfigAssignments: list(
      "/:id/assignments",
      "The assignments of a config to hosts, newest first, and what each host has made of it",
      {
        filter: assignmentFilterFields,
        listName: "config-assignments",
        returns: ["A page of assignments", AssignmentPage],
        find: (page, { params, query }) =>
          browseAssignments(core, { ...assignmentFilterOf(query), configId: params.id }, page),
        view: assignmentView,
      },
    ),
  }));

/** `GET /v1/collector/configs/{id}`: one config, its hosts and assignments; with `Accept: application/yaml` the published bytes. */
export const getConfigRoute = (core: ReadCore) =>
  route({
    method: "GET",
    path: "/v1/collector/configs/:id",
    operationId: "getCollectorConfig",
    summary:
      "One published config, its hosts and its newest batches of assignments; Accept: application/yaml returns the published bytes",
    guard: scope(core, "audit"),
    params: IdParams,
    replies: { 200: { description: "The config", schema: ConfigDetail } },
    problems: ["not_found"],
    handle: async ({ params, accept }) => {
      const config = await describeConfig(core, params.id);
      if (accept.includes("application/yaml")) {
        return { status: 200, text: { type: "application/yaml", content: config.yaml } };
      }
      const body: ConfigDetail = {
        generated_at: config.now.toISOString(),
        ...listedConfigView(config),
        yaml: config.yaml,
        batches: config.batches.map((batch) =>
          batchView({ ...batch, until: new Date(batch.from.getTime() + minuteMs) }),
        ),
      };
      return { status: 200, body };
    },
  });

const hostCounts = [
  "desired",
  "running",
  "failed",
  "drifted",
  "silent",
  "silent_running",
  "undesired",
] as const;

const configColumns: CsvColumns<ListedConfig> = {
  ...memberColumns<ListedConfig>(
    "id",
    "config_hash",
    "name",
    "kind",
    "size_bytes",
    "created_at",
    "created_by",
    "created_by_email",
  ),
  ...Object.fromEntries(
    [...hostCounts, "finished_at" as const].map((figure) => [
      figure,
      ({ hosts }: ListedConfig) => hosts[figure],
    ]),
  ),
};

const assignmentColumns = memberColumns<ConfigAssignment>(
  "identity_id",
  "identity",
  "device_id",
  "assigned_at",
  "assigned_by",
  "assigned_by_email",
  "ended_at",
  "progress",
  "applied_at",
);

/** `GET /v1/collector/configs/export.csv`: every config of the list and its hosts; audited. */
export const exportConfigsRoute = (core: ConfiguredCore) =>
  csvRoute(core, {
    path: "/v1/collector/configs/export.csv",
    operationId: "exportCollectorConfigs",
    summary: "All configs under the list's filter as CSV, newest first",
    query: v.strictObject(configFilterFields),
    open: async ({ query }, audit) => ({
      name: "configs",
      columns: configColumns,
      batches: viewsOf(exportConfigs(core, configFilterOf(query), audit), listedConfigView),
    }),
  });

/** `GET /v1/collector/configs/{id}/assignments/export.csv`: every assignment of a config under the list's filter; audited. */
export const exportAssignmentsRoute = (core: ConfiguredCore) =>
  csvRoute(core, {
    path: "/v1/collector/configs/:id/assignments/export.csv",
    operationId: "exportConfigAssignments",
    summary: "All assignments of a config under the list's filters as CSV, newest first",
    params: IdParams,
    query: v.strictObject(assignmentFilterFields),
    problems: ["not_found"],
    open: async ({ params, query }, audit) => {
      const filter = { ...assignmentFilterOf(query), configId: params.id };
      return {
        name: "config-assignments",
        asked: { config: params.id, ...query },
        columns: assignmentColumns,
        batches: viewsOf(await exportAssignments(core, filter, audit), assignmentView),
      };
    },
  });
