import { Problem } from "#functions/problems.ts";
import type { FleetRules } from "#functions/store/fleet/rows.ts";
import type { FleetFilter } from "#proto/fleet-health/filter.ts";
import { withoutHistory } from "#proto/fleet-health/past.ts";
import type { FleetSort } from "#proto/fleet-health/vocabulary.ts";

/** Throws 422 `filter_without_history` for a view of the past that reads what is known as it is now only. */
export const requireHistory = (
  view: { filter: FleetFilter; sort?: FleetSort },
  rules: FleetRules,
): void => {
  if (rules.past === undefined) return;
  const { staleAfterSeconds, forwardingSeconds } = rules.thresholds;
  const reason = withoutHistory(view, {
    at: rules.now.getTime(),
    thresholds: { stale_after_seconds: staleAfterSeconds, forwarding_seconds: forwardingSeconds },
  });
  if (reason !== undefined) throw new Problem("filter_without_history", { detail: reason });
};
