import type { ExportKind } from "../../../../proto/fleet-health/vocabulary.ts";
import { type FleetFilter, filterToParams } from "../query-language/filter.ts";

/** The exports as a person reads them. */
export const exportNames: Readonly<Record<ExportKind, string>> = {
  stale: "Stale collectors",
  queue_risk: "Queue risk",
  renewal_failures: "Renewal failures",
  config_drift: "Config drift",
};

/** Where an export of the fleet under a filter is, streamed by core. */
export const exportPath = (kind: ExportKind, filter: FleetFilter): string => {
  const params = new URLSearchParams({ kind });
  for (const [name, value] of filterToParams(filter)) params.append(name, value);
  return `/api/core/collector/health/export.csv?${params}`;
};
