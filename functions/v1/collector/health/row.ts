import { conditionsOf } from "#functions/domain/fleet/conditions.ts";
import { viewOf } from "#functions/http/route.ts";
import type {
  CountingRules,
  FleetRules,
  FleetThresholds,
} from "#functions/store/fleet/conditions.ts";
import type { FleetRow } from "#functions/store/fleet/host-rows.ts";
import { timestampOf } from "#kit/clock.ts";
import {
  type FleetHealthRow,
  membersOfRow,
  type NamedColumn,
} from "#proto/fleet-health/columns.ts";
import { FleetThresholdsView } from "#proto/fleet-health/report.ts";
import { certificateStatus } from "#proto/fleet-health/vocabulary.ts";

const rowMembers = membersOfRow();

/** Returns the value of a column. The driver has times as text, and 64-bit integers as decimal strings. */
const readColumn = (row: FleetRow, { sql, column }: NamedColumn): unknown => {
  const value = row[column] ?? null;
  if (value === null) return null;
  if (sql === "timestamptz") return timestampOf(String(value));
  return sql === "bigint" ? Number(value) : value;
};

/** Returns the columns of a row as the members of the report's row, except those that depend on other columns or the time. */
const membersOf = (row: FleetRow): FleetHealthRow => {
  const members: Record<string, unknown> = {};
  for (const { name, columns, absent } of rowMembers) {
    const [first] = columns;
    if (absent === undefined) members[name] = readColumn(row, first);
    else if (absent === "never" || readColumn(row, first) !== null) {
      const group: Record<string, unknown> = {};
      for (const column of columns) group[column.name] = readColumn(row, column);
      members[name] = group;
    } else if (absent === "null") members[name] = null;
  }
  return members as FleetHealthRow;
};

/** Returns the view of a row by the rules that selected it. */
export const healthRowView = (row: FleetRow, rules: CountingRules): FleetHealthRow => {
  const view = membersOf(row);
  const { certificate, successor, process } = view;
  view.conditions = conditionsOf(row, rules);
  certificate.status = certificateStatus(
    { status: row.certificate_status, notAfter: new Date(certificate.not_after) },
    rules.now.getTime(),
  );
  if (successor) successor.status = "active";
  if (process.cpu_seconds !== null) process.cpu_seconds /= 1000;
  return view;
};

/** Returns the mark of a view of the past. */
export const pastMarkOf = ({ past, now }: FleetRules): { at?: string } =>
  past ? { at: now.toISOString() } : {};

const thresholdsOf = viewOf(FleetThresholdsView);

/** Returns the view of thresholds. */
export const thresholdsView = (thresholds: FleetThresholds): FleetThresholdsView =>
  thresholdsOf({
    ...thresholds,
    minVersion: thresholds.versionMin,
    otelcolMinVersion: thresholds.otelcolVersionMin ?? null,
  });
