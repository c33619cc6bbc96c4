import { historyMax } from "../../../proto/fleet-health/detail.ts";
import type { Core } from "../../core.ts";
import { Problem } from "../../problems.ts";
import { type CollectorEvent, findCollectorEvents } from "../../store/audit.ts";
import { type FleetRow, findFleetRow } from "../../store/fleet-report.ts";
import type { FleetRules } from "../../store/fleet-rows.ts";
import { readFleetRules } from "./rules.ts";
import { fleetThresholds } from "./thresholds.ts";

/** One collector with what happened to it, newest first (contract, section 6). 404 `not_found`. */
export const inspectHost = async (
  { db, clock, config }: Pick<Core, "db" | "clock" | "config">,
  identityId: string,
): Promise<{ rules: FleetRules; row: FleetRow; history: CollectorEvent[] }> => {
  const thresholds = fleetThresholds(config);
  const rules = await readFleetRules(db, { now: new Date(clock.now()), thresholds });
  const [row, history] = await Promise.all([
    findFleetRow(db, rules, identityId),
    findCollectorEvents(db, identityId, historyMax),
  ]);
  if (row === undefined) throw new Problem("not_found", { detail: "No such collector" });
  return { rules, row, history };
};
