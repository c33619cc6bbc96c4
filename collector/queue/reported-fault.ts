import { type Clock, rfc3339 } from "#kit/clock.ts";
import type { ReportedCondition } from "#proto/management/heartbeat.ts";

/**
 * A full disk still takes what is small: only a success that is later than this after the last failure ends a condition. Longer than
 * the time between two heartbeats, so that one reports it.
 */
const settleMs = 90_000;

/**
 * Follows whether a part of the collector does its work; `condition` says why not, from the first failure on, and `canEnd` whether a
 * success would end that. `part` begins its reasons.
 */
export const createReportedFault = (
  code: string,
  clock: Pick<Clock, "now" | "monotonic">,
  part = "",
) => {
  let condition: ReportedCondition | undefined;
  let failedMs = 0;
  const canEnd = () => condition !== undefined && clock.monotonic() - failedMs >= settleMs;
  return {
    failed: (error: unknown, path?: string) => {
      failedMs = clock.monotonic();
      const since = condition?.since ?? rfc3339(clock.now());
      const reason = part + (error instanceof Error ? error.message : "unknown reason");
      condition = { code, since, reason, ...(path === undefined ? {} : { path }) };
    },
    succeeded: () => {
      if (canEnd()) condition = undefined;
    },
    canEnd,
    condition: () => condition,
  };
};
