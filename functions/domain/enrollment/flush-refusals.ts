import type { WriteCore } from "#functions/core.ts";
import {
  deleteFailures,
  enrollmentCounts,
  type RefusalRow,
} from "#functions/store/enrollment/enrollments.ts";
import { deleteUnusedAttested } from "#functions/store/enrollment/policies.ts";
import type { AuditEntry } from "../audit/audit-log.ts";
import { flushCounts } from "../audit/flush-refusals.ts";
import { failureWindowMs } from "./refuse.ts";

const unusedMax = 500;

/**
 * Audits the counts of refused enrollments, by address and reason; see `flushCounts`. Deletes failed uses that no longer count, and service
 * account tokens that have expired and enrolled no host.
 */
export const flushEnrollmentRefusals = async (core: WriteCore): Promise<number> => {
  await deleteFailures(core.db, new Date(core.clock.now() - failureWindowMs));
  await deleteUnusedAttested(core.db, new Date(core.clock.now()), unusedMax);
  return flushCounts(core, enrollmentCounts, enrollmentEntry);
};

const enrollmentEntry = ({
  addressKey,
  minuteStartedAt,
  reason,
  refusals,
  lastAt,
}: RefusalRow): AuditEntry => {
  const [address = "", identity = ""] = addressKey.split(" ");
  return {
    actor: { type: "collector", id: identity, display: identity || "unknown" },
    action: "collector.enroll",
    target: { type: "remote_address", id: address },
    outcome: "failure",
    reason,
    details: {
      count: refusals,
      minute: minuteStartedAt.toISOString(),
      last_at: lastAt.toISOString(),
    },
  };
};
