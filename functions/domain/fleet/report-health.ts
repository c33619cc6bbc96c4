import type { FleetFilter } from "../../../proto/fleet-health/filter.ts";
import type { Core } from "../../core.ts";
import {
  type FleetPage,
  type FleetPosition,
  type FleetRow,
  type FleetSummary,
  findFleetPage,
  summarizeFleet,
} from "../../store/fleet-report.ts";
import type { FleetThresholds } from "../../store/fleet-thresholds.ts";
import { readFleetRules } from "./rules.ts";
import { fleetThresholds } from "./thresholds.ts";

/** A page of the fleet and the summary of the whole of it, judged at one moment. */
export interface FleetReport {
  generatedAt: Date;
  thresholds: FleetThresholds;
  summary: FleetSummary;
  rows: FleetRow[];
  next: FleetPosition | null;
}

/**
 * The fleet health report (contract, section 6). The summary follows the filter except for its states. Page and summary are read side
 * by side: of a fleet that reports meanwhile, one may know a heartbeat more than the other.
 */
export const reportHealth = async (
  { db, clock, config }: Pick<Core, "db" | "clock" | "config">,
  filter: FleetFilter,
  page: FleetPage,
): Promise<FleetReport> => {
  const thresholds = fleetThresholds(config);
  const rules = await readFleetRules(db, { now: new Date(clock.now()), thresholds });
  const [summary, { rows, next }] = await Promise.all([
    summarizeFleet(db, rules, filter),
    findFleetPage(db, rules, filter, page),
  ]);
  return { generatedAt: rules.now, thresholds, summary, rows, next };
};
