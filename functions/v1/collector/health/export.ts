import * as v from "valibot";
import type { ConfiguredCore } from "#functions/core.ts";
import { exportFleet } from "#functions/domain/fleet/export-fleet.ts";
import { type CsvColumn, csvRoute, memberColumns, viewsOf } from "#functions/http/csv.ts";
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

type ExportColumn = CsvColumn<FleetHealthRow>;

/** Returns the columns of the numbers of the queue or the process. */
const numberColumns = (group: "queue" | "process"): ExportColumn[] =>
  Object.entries<ReportedNumber>(reportedNumbers[group]).flatMap(
    ([name, { csv }]): ExportColumn[] => {
      const read = ({ [group]: values }: FleetHealthRow) =>
        (values as Record<string, number | null>)[name] ?? null;
      return csv === undefined ? [] : [[csv, read]];
    },
  );

const hostColumns = [
  ...memberColumns<FleetHealthRow>(
    "identity_id",
    "identity",
    "device_id",
    "hostname",
    "platform",
    "version",
    "state",
  ),
];

const lastSeenColumns: readonly ExportColumn[] = [
  ...memberColumns<FleetHealthRow>(
    "enrolled_at",
    "last_heartbeat_at",
    "last_envelope_at",
    "forwarding",
  ),
  ["forwarder_connected", (row) => row.forwarder && String(row.forwarder.connected)],
  ["forwarder_last_ack_at", (row) => row.forwarder?.last_ack_at ?? null],
  ["forwarder_last_error", (row) => row.forwarder?.last_error ?? null],
  ...numberColumns("process"),
  ...memberColumns<FleetHealthRow>("core", "subnet", "incomplete_hours"),
  ["day_bytes", (row) => row.volume?.day_bytes ?? null],
  ["usual_bytes", (row) => row.volume?.usual_bytes ?? null],
  ["held_by_budget", (row) => row.hold?.budget ?? null],
  ["held_until", (row) => row.hold?.until ?? null],
  ["inventory", (row) => row.inventory?.status ?? null],
  ["owner", (row) => row.inventory?.owner ?? null],
];

const certificateColumns: readonly ExportColumn[] = [
  ["certificate_id", (row) => row.certificate.id],
  ["certificate_status", (row) => row.certificate.status],
  ["certificate_not_after", (row) => row.certificate.not_after],
  ["certificate_renew_after", (row) => row.certificate.renew_after],
  ["successor_id", (row) => row.successor?.id ?? null],
];

const authFailureColumns: readonly ExportColumn[] = [
  ["last_auth_failure_at", (row) => row.last_auth_failure?.at ?? null],
  ["last_auth_failure_reason", (row) => row.last_auth_failure?.reason ?? null],
];

/** The columns of the condition for which a row is in the export, even if another one decides its state. */
const conditionColumns = (condition: FleetCondition): readonly ExportColumn[] => {
  const find = (row: FleetHealthRow) => row.conditions.find(({ state }) => state === condition);
  return [
    ["since", (row) => find(row)?.since ?? null],
    ["evidence", (row) => find(row)?.evidence ?? null],
  ];
};

/** The columns of each export, in their order. */
const exportColumns: Record<ExportKind, readonly ExportColumn[]> = {
  stale: [
    ...hostColumns,
    ...conditionColumns("stale"),
    ...lastSeenColumns,
    ...certificateColumns,
    ...authFailureColumns,
  ],
  queue_risk: [
    ...hostColumns,
    ...conditionColumns("queue_at_risk"),
    ...numberColumns("queue"),
    ["ingest_gap_records_max", (row) => row.ingest_gap?.records_max ?? null],
    ["ingest_gap_last_at", (row) => row.ingest_gap?.last_at ?? null],
    ...lastSeenColumns,
  ],
  renewal_failures: [
    ...hostColumns,
    ...conditionColumns("renewal_failed"),
    ["renewal_status", (row) => row.renewal.status],
    ["renewal_last_error", (row) => row.renewal.last_error],
    ...certificateColumns,
    ...lastSeenColumns,
    ...authFailureColumns,
  ],
  config_drift: [
    ...hostColumns,
    ["drift", (row) => row.config.drift],
    ["running_config_hash", (row) => row.config.running_config_hash],
    ["desired_config_hash", (row) => row.config.desired_config_hash],
    ["last_known_good_config_hash", (row) => row.config.last_known_good_config_hash],
    ...lastSeenColumns,
  ],
};

/** Returns a column for each key of labels, and one for the labels of all other keys if there are any. */
export const labelColumns = ({ keys, hasOthers }: LabelKeys): ExportColumn[] => [
  ...keys.map(
    (key): ExportColumn => [
      `label.${key}`,
      ({ labels }) => (Object.hasOwn(labels, key) ? (labels[key] ?? null) : null),
    ],
  ),
  ...(hasOthers ? [["other_labels", (row) => otherLabels(row, keys)] satisfies ExportColumn] : []),
];

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
      const request = { kind, filter, at, operator: caller, origin, asked };
      const { rules, labels, batches } = await exportFleet(core, request);
      return {
        name: `fleet-${kind}`,
        asked,
        at: rules.now,
        columns: [...exportColumns[kind], ...labelColumns(labels)],
        batches: viewsOf(batches, (row) => healthRowView(row, rules)),
      };
    },
  });
