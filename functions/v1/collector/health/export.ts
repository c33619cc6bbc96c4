import * as v from "valibot";
import type { ConfiguredCore } from "#functions/core.ts";
import { exportFleet } from "#functions/domain/fleet/export-fleet.ts";
import { type CsvColumns, csvRoute, memberColumns, viewsOf } from "#functions/http/csv.ts";
import type { LabelKeys } from "#functions/store/fleet/labels.ts";
import { filterFromQuery, filterQuery, PastTime } from "#proto/fleet-health/filter.ts";
import type { FleetHealthRow } from "#proto/fleet-health/row.ts";
import {
  type ExportKind,
  exportKinds,
  type FleetCondition,
} from "#proto/fleet-health/vocabulary.ts";
import { type ReportedNumber, reportedNumbers } from "#proto/management/reported-numbers.ts";
import { healthRowView } from "./row.ts";

const ExportQuery = filterQuery({
  kind: v.picklist(exportKinds, "must be a kind of export"),
  at: v.optional(PastTime),
});

type ExportColumns = CsvColumns<FleetHealthRow>;

/** Reads a member of a part of the row; null without the part. */
const memberOf =
  (part: keyof FleetHealthRow, name: string) =>
  (row: FleetHealthRow): string | number | null => {
    const members = (row[part] ?? {}) as Record<string, string | number | boolean | null>;
    const value = members[name] ?? null;
    return typeof value === "boolean" ? String(value) : value;
  };

/** Returns columns of members of a part of the row, named by both unless `prefix` says otherwise; empty without the part. */
const columnsOfPart = <Part extends keyof FleetHealthRow>(
  part: Part,
  names: readonly (keyof NonNullable<FleetHealthRow[Part]> & string)[],
  prefix = `${part}_`,
): ExportColumns => Object.fromEntries(names.map((name) => [prefix + name, memberOf(part, name)]));

/** Returns the columns of the numbers of the queue or the process. */
const numberColumns = (group: "queue" | "process"): ExportColumns =>
  Object.fromEntries(
    Object.entries<ReportedNumber>(reportedNumbers[group]).flatMap(([name, { csv }]) =>
      csv === undefined ? [] : [[csv, memberOf(group, name)]],
    ),
  );

const hostColumns = memberColumns<FleetHealthRow>(
  "identity_id",
  "identity",
  "device_id",
  "hostname",
  "platform",
  "version",
  "state",
);

const lastSeenColumns: ExportColumns = {
  ...memberColumns<FleetHealthRow>(
    "enrolled_at",
    "last_heartbeat_at",
    "last_envelope_at",
    "forwarding",
  ),
  ...columnsOfPart("forwarder", ["connected", "last_ack_at", "last_error"]),
  ...numberColumns("process"),
  ...memberColumns<FleetHealthRow>("core", "subnet", "incomplete_hours"),
  ...columnsOfPart("volume", ["day_bytes", "usual_bytes"], ""),
  ...columnsOfPart("hold", ["budget"], "held_by_"),
  ...columnsOfPart("hold", ["until"], "held_"),
  inventory: (row) => row.inventory?.status ?? null,
  ...columnsOfPart("inventory", ["owner"], ""),
};

const certificateColumns = {
  ...columnsOfPart("certificate", ["id", "status", "not_after", "renew_after"]),
  ...columnsOfPart("successor", ["id"]),
};

const authFailureColumns = columnsOfPart("last_auth_failure", ["at", "reason"]);

/** The columns of the condition for which a row is in the export, even if another one decides its state. */
const conditionColumns = (condition: FleetCondition): ExportColumns => {
  const find = (row: FleetHealthRow) => row.conditions.find(({ state }) => state === condition);
  return {
    since: (row) => find(row)?.since ?? null,
    evidence: (row) => find(row)?.evidence ?? null,
  };
};

/** The columns of each export, in their order. */
const exportColumns: Record<ExportKind, ExportColumns> = {
  stale: {
    ...hostColumns,
    ...conditionColumns("stale"),
    ...lastSeenColumns,
    ...certificateColumns,
    ...authFailureColumns,
  },
  queue_risk: {
    ...hostColumns,
    ...conditionColumns("queue_at_risk"),
    ...numberColumns("queue"),
    ...columnsOfPart("ingest_gap", ["records_max", "last_at"]),
    ...lastSeenColumns,
  },
  renewal_failures: {
    ...hostColumns,
    ...conditionColumns("renewal_failed"),
    ...columnsOfPart("renewal", ["status", "last_error"]),
    ...certificateColumns,
    ...lastSeenColumns,
    ...authFailureColumns,
  },
  config_drift: {
    ...hostColumns,
    ...columnsOfPart(
      "config",
      ["drift", "running_config_hash", "desired_config_hash", "last_known_good_config_hash"],
      "",
    ),
    ...lastSeenColumns,
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
