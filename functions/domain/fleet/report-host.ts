import type { ReadCore } from "#functions/core.ts";
import { Problem } from "#functions/problems.ts";
import { type CollectorEvent, findCollectorEvents } from "#functions/store/audit/list.ts";
import { findHostLosses, type HostLoss } from "#functions/store/export/dead-letters.ts";
import type { FleetRules } from "#functions/store/fleet/conditions.ts";
import {
  type FleetRow,
  findFleetRow,
  findHostBackground,
  type HostBackground,
} from "#functions/store/fleet/host-rows.ts";
import { historyMax } from "#proto/fleet-health/host.ts";
import { readFleetRules } from "./rules.ts";
import { readFleetView } from "./view-rules.ts";

/**
 * Returns one host with its policy, its config errors and its audit events, newest first, now or at a past time. Throws 404 `not_found`,
 * and 422 `no_history`.
 */
export const reportHost = async (
  core: ReadCore,
  identityId: string,
  at?: Date,
): Promise<{
  rules: FleetRules;
  row: FleetRow;
  background: HostBackground;
  history: CollectorEvent[];
  exportLosses: HostLoss[];
}> => {
  // Reads a single host from the database.
  const rules =
    at === undefined ? await readFleetRules(core) : (await readFleetView(core, { at })).rules;
  const [row, background, history, exportLosses] = await Promise.all([
    findFleetRow({ db: core.db, rules }, identityId),
    findHostBackground(core.db, identityId),
    findCollectorEvents(core.db, identityId, { limit: historyMax, until: at }),
    at === undefined ? findHostLosses(core.db, identityId) : [],
  ]);
  if (row === undefined || background === undefined)
    throw new Problem("not_found", { detail: "No such collector" });
  // The errors of a config, and its text, are those of the last report.
  const unknown = { configErrors: null, effectiveConfig: null };
  const known = at === undefined ? background : { ...background, ...unknown };
  return { rules, row, background: known, history, exportLosses };
};
