import type { FleetFilter } from "./filter.ts";
import type { ExportKind } from "./vocabulary.ts";

/** The rows of each CSV export as a filter: by condition, not by state, which is only the first of the conditions. */
export const exportFilters: Readonly<Record<ExportKind, FleetFilter>> = {
  stale: { condition: ["stale"] },
  queue_risk: { condition: ["queue_at_risk"] },
  renewal_failures: { condition: ["renewal_failed"] },
  config_drift: { drift: ["drifted", "on_last_known_good"] },
};
