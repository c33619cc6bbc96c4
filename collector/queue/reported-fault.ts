import { type Clock, rfc3339 } from "../../kit/clock.ts";
import type { ReportedCondition } from "../../proto/management/heartbeat.ts";

/** Follows whether a part of the collector does its work. */
export interface ReportedFault {
  failed(error: unknown, path?: string): void;
  succeeded(): void;
  /** Returns why it does not do its work; undefined if it does. */
  condition(): ReportedCondition | undefined;
}

/** A full disk still takes what is small: only a success that is later than this after the last failure ends a condition. */
const settleMs = 10_000;

/** Creates the fault of a part, which begins with its first failure. */
export const createReportedFault = (code: string, clock: Pick<Clock, "now" | "monotonic">): ReportedFault => {
  let condition: ReportedCondition | undefined;
  let failedMs = 0;
  return {
    failed: (error, path) => {
      failedMs = clock.monotonic();
      const since = condition?.since ?? rfc3339(clock.now());
      const reason = error instanceof Error ? error.message : "unknown reason";
      condition = { code, since, reason, ...(path === undefined ? {} : { path }) };
    },
    succeeded: () => {
      if (clock.monotonic() - failedMs >= settleMs) condition = undefined;
    },
    condition: () => condition,
  };
};
