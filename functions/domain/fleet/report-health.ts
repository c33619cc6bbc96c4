import { gte, valid } from "semver";
import type { FleetSort } from "../../../proto/fleet-health.ts";
import type { Core } from "../../core.ts";
import {
  type FleetPosition,
  type FleetRow,
  type FleetSummary,
  findFleetPage,
  findFleetVersions,
  summarizeFleet,
} from "../../store/fleet-report.ts";
import type { FleetFilter, FleetRules } from "../../store/fleet-rows.ts";
import type { FleetThresholds } from "../../store/fleet-thresholds.ts";
import { fleetThresholds } from "./thresholds.ts";

/** A page of the fleet and the summary of the whole of it, read in one snapshot. */
export interface FleetReport {
  generatedAt: Date;
  thresholds: FleetThresholds;
  summary: FleetSummary;
  rows: FleetRow[];
  next: FleetPosition | null;
}

/** Which rows, and in which order. */
export interface FleetQuery {
  filter: FleetFilter;
  sort: FleetSort;
  order: "asc" | "desc";
  limit: number;
  after: FleetPosition | null;
}

/** The fleet health report (contract, section 6). The summary follows the filter except for its states. */
export const reportHealth = async (
  { db, clock, config }: Pick<Core, "db" | "clock" | "config">,
  { filter, ...page }: FleetQuery,
): Promise<FleetReport> =>
  db.transaction(
    async (tx) => {
      const thresholds = fleetThresholds(config);
      const versions = await findFleetVersions(tx);
      const unsupportedVersions = versions.filter((version) => !isSupported(version, thresholds.versionMin));
      const rules: FleetRules = { now: new Date(clock.now()), thresholds, unsupportedVersions };
      const summary = await summarizeFleet(tx, rules, filter);
      const { rows, next } = await findFleetPage(tx, rules, filter, page);
      return { generatedAt: rules.now, thresholds, summary, rows, next };
    },
    { isolationLevel: "repeatable read", accessMode: "read only" },
  );

/** Whether a version is SemVer and at least the minimum. A leading "v" is not SemVer. */
const isSupported = (version: string, minimum: string | null): boolean =>
  valid(version) !== null && !version.startsWith("v") && (minimum === null || gte(version, minimum));
