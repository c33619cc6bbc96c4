import * as v from "valibot";
import type { ConfiguredCore } from "#functions/core.ts";
import { exportFleet } from "#functions/domain/fleet/export-fleet.ts";
import { type CsvColumns, csvRoute, viewsOf } from "#functions/http/csv.ts";
import type { LabelKeys } from "#functions/store/fleet/labels.ts";
import { type FleetHealthRow, membersOfRow } from "#proto/fleet-health/columns.ts";
import { filterFromQuery, filterQuery, PastTime } from "#proto/fleet-health/filter.ts";
import {
  type ExportKind,
  exportKinds,
  type FleetCondition,
} from "#proto/fleet-health/vocabulary.ts";
import { isRecord } from "#proto/values.ts";
import { healthRowView } from "./row.ts";

const ExportQuery = filterQuery({
  kind: v.picklist(exportKinds, "must be a kind of export"),
  at: v.optional(PastTime),
});

const rowMembers = membersOfRow();

type ExportColumns = CsvColumns<FleetHealthRow>;

/** Reads a column; empty where a host lacks its group. */
const cellOf =
  (member: keyof FleetHealthRow, name: string) =>
  (row: FleetHealthRow): string | number | null => {
    const own: unknown = row[member];
    const value = isRecord(own) ? own[name] : own;
    if (typeof value === "number") return value;
    return value === null || value === undefined ? null : String(value);
  };

/** Returns the columns of some members of the row, in the row's order. */
const columnsOf = (...names: readonly (keyof FleetHealthRow)[]): ExportColumns =>
  Object.fromEntries(
    rowMembers
      .filter(({ name }) => names.includes(name))
      .flatMap(({ name: member, columns }) =>
        columns.flatMap(({ name, column, csv = column }) =>
          csv === false ? [] : [[csv, cellOf(member, name)]],
        ),
      ),
  );

const nameColumns = columnsOf(
  "identity_id",
  "identity",
  "device_id",
  "hostname",
  "platform",
  "version",
  "state",
);

/** Members that only some exports have. */
const ofKinds: readonly (keyof FleetHealthRow)[] = [
  "certificate",
  "successor",
  "config",
  "queue",
  "renewal",
  "last_auth_failure",
  "ingest_gap",
];

const otherColumns = columnsOf(
  ...rowMembers.map(({ name }) => name).filter((name) => !ofKinds.includes(name)),
);

/** The columns of the condition for which a row is in the export, even if another one decides its state. */
const conditionColumns = (condition: FleetCondition): ExportColumns => {
  const find = (row: FleetHealthRow) => row.conditions.find(({ state }) => state === condition);
  return {
    since: (row) => find(row)?.since ?? null,
    evidence: (row) => find(row)?.evidence ?? null,
  };
};

/** The columns of each export, in their order: those of the host, why it is in the export, then others. */
const exportColumns: Record<ExportKind, ExportColumns> = {
  stale: {
    ...nameColumns,
    ...conditionColumns("stale"),
    ...otherColumns,
    ...columnsOf("certificate", "successor", "last_auth_failure"),
  },
  queue_risk: {
    ...nameColumns,
    ...conditionColumns("queue_at_risk"),
    ...columnsOf("queue", "ingest_gap"),
    ...otherColumns,
  },
  unhealthy_components: {
    ...nameColumns,
    ...conditionColumns("component_unhealthy"),
    ...otherColumns,
  },
  renewal_failures: {
    ...nameColumns,
    ...conditionColumns("renewal_failed"),
    ...columnsOf("renewal"),
    ...columnsOf("certificate", "successor"),
    ...otherColumns,
    ...columnsOf("last_auth_failure"),
  },
  config_drift: {
    ...nameColumns,
    drift: ({ config }) => config.drift,
    ...columnsOf("config"),
    ...otherColumns,
  },
};

/** Returns a column for each key of labels, and one for the labels of all other keys if there are any. */
export const labelColumns = ({ keys, hasOthers }: LabelKeys): ExportColumns => ({
  ...Object.fromEntries(
    keys.map((key) => [
      `label.${key}`,
      ({ labels }: FleetHealthRow) => (Object.hasOwn(labels, key) ? (labels[key] ?? null) : null),
    ]),
  ),
  ...(hasOthers && { other_labels: (row: FleetHealthRow) => otherLabels(row, keys) }),
});

const otherLabels = ({ labels }: FleetHealthRow, keys: readonly string[]) =>
  Object.entries(labels)
    .filter(([key]) => !keys.includes(key))
    .map(([key, value]) => `${key}=${value}`)
    .join(" ");

/** `GET /v1/collector/health/export.csv`: streams every row of a kind under the filters, with backpressure; audited. */
export const healthExportRoute = (core: ConfiguredCore) =>
  csvRoute(core, {
    path: "/v1/collector/health/export.csv",
    operationId: "exportFleetHealth",
    summary:
      "All rows to which a kind of condition applies, whatever their state, under the report's filters",
    query: ExportQuery,
    problems: ["no_history", "filter_without_history"],
    open: async ({ query: { kind, at, ...query }, caller, origin }) => {
      const filter = filterFromQuery(query);
      const asked = at ? { ...query, at: at.toISOString() } : query;
      const request = { kind, filter, at, caller, origin, asked };
      const { rules, labels, batches } = await exportFleet(core, request);
      return {
        name: `fleet-${kind}`,
        asked,
        at: rules.now,
        columns: { ...exportColumns[kind], ...labelColumns(labels) },
        batches: viewsOf(batches, (row) => healthRowView(row, rules)),
      };
    },
  });
