import { changeFilter, type FleetFilter } from "../../../../proto/fleet-health/filter.ts";
import type { FleetSummaryView, FleetThresholdsView } from "../../../../proto/fleet-health/report.ts";
import type { FleetState } from "../../../../proto/fleet-health/vocabulary.ts";
import { formatDuration } from "../../format/format.ts";

/** One figure of the summary: its count, its words, and the filter that finds the same hosts; empty for the whole fleet. */
export interface SummaryFigure {
  count: Exclude<keyof FleetSummaryView, "by_state">;
  words: string;
  filter: FleetFilter;
}

/** The figures in order, the last two are those to worry about. */
export const summaryFigures: readonly SummaryFigure[] = [
  { count: "enrolled", words: "enrolled", filter: {} },
  { count: "active_recent_heartbeats", words: "heartbeating", filter: { heartbeat: ["recent"] } },
  { count: "forwarding", words: "forwarding", filter: { forwarding: ["forwarding"] } },
  { count: "stopped", words: "stopped forwarding", filter: { forwarding: ["stopped"] } },
  { count: "never_forwarded", words: "heartbeat but never forwarded", filter: { forwarding: ["never"] } },
];

const partsOf = (filter: FleetFilter) => Object.keys(filter) as (keyof FleetFilter)[];

/** Whether a filter includes the filter of a figure; never for the whole fleet. */
export const includesFigure = (filter: FleetFilter, figure: SummaryFigure): boolean => {
  const parts = partsOf(figure.filter);
  return parts.length > 0 && parts.every((part) => String(filter[part]) === String(figure.filter[part]));
};

/** Adds the filter of a figure, or removes it if included. The figure of the whole fleet removes every filter. */
export const toggleFigure = (filter: FleetFilter, figure: SummaryFigure): FleetFilter => {
  const parts = partsOf(figure.filter);
  if (parts.length === 0) return {};
  if (!includesFigure(filter, figure)) return { ...filter, ...figure.filter };
  return changeFilter(filter, Object.fromEntries(parts.map((part) => [part, undefined])));
};

/** Returns when each state applies, with the thresholds of this deployment (docs/fleet-health.md). */
export const stateRules = (thresholds: FleetThresholdsView): Record<FleetState, string> => {
  const staleAfter = formatDuration(thresholds.stale_after_seconds);
  const enrolling = formatDuration(thresholds.enrolling_seconds);
  const fraction = `${Math.round(thresholds.cert_expiring_fraction * 100)} %`;
  const { min_version: versionMin } = thresholds;
  return {
    revoked: "The identity is revoked, or its last used certificate is and no other is active.",
    enrolling: `No heartbeat and no envelope yet; enrolled less than ${enrolling} ago.`,
    renewal_failed: "The certificate expired without a successor, or the collector reports that renewal failed.",
    stale: `No heartbeat for more than ${staleAfter}, or none at all ${enrolling} after enrollment.`,
    cert_expiring: `Less than ${fraction} of the certificate's lifetime is left, and there is no successor.`,
    config_invalid: "The collector reports an invalid config; it runs the one before.",
    unsupported_version: `The version is not SemVer${versionMin === null ? "" : `, or below ${versionMin}`}.`,
    queue_at_risk: "The collector reports a queue at risk, or has dropped records since the previous heartbeat.",
    healthy: "None of the above.",
  };
};
