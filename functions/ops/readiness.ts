import { type Clock, TimedOut, withTimeout } from "#kit/clock.ts";
import type { Log } from "#kit/log.ts";
import type { PartState } from "#proto/system/report.ts";

/** The result of one check, with a sentence for the operator. `disabled`: not configured, which is no fault. `warning`: core still serves. */
export interface CheckResult {
  status: PartState;
  detail: string;
}

/** A condition that core needs to serve. */
export interface Check {
  /** In `snake_case`; stable, because alerts use it. */
  name: string;
  find(): Promise<CheckResult> | CheckResult;
}

/** The response of a readiness endpoint. */
export interface ReadinessReport {
  status: Exclude<PartState, "warning">;
  checks: { name: string; status: PartState; detail: string | null }[];
}

/** Shorter than the timeout of a probe, so that a report names the check that does not return (D3). */
const checkTimeoutMs = 2000;

/**
 * Runs the checks concurrently. Never throws: a check that throws or takes longer than two seconds is `not_ready`. The report is
 * `not_ready` if any check is, `disabled` if all are, otherwise `ready`.
 */
export const runChecks = async (
  checks: readonly Check[],
  { clock, log }: { clock: Clock; log: Log },
): Promise<ReadinessReport> => {
  const findings = await Promise.all(
    checks.map(async (check) => ({
      name: check.name,
      ...(await findInTime(check, { clock, log })),
    })),
  );
  return { status: statusOf(findings), checks: findings };
};

const statusOf = (findings: readonly CheckResult[]): ReadinessReport["status"] => {
  const statuses = new Set(findings.map(({ status }) => status));
  if (statuses.has("not_ready")) return "not_ready";
  return statuses.size === 1 && statuses.has("disabled") ? "disabled" : "ready";
};

const findInTime = async (
  check: Check,
  { clock, log }: { clock: Clock; log: Log },
): Promise<CheckResult> => {
  try {
    return await withTimeout(checkTimeoutMs, clock, check.find());
  } catch (err) {
    if (err instanceof TimedOut)
      return { status: "not_ready", detail: `There was ${err.message}.` };
    log.warn({ check: check.name, err }, "readiness check failed");
    return { status: "not_ready", detail: "The check failed: see the log." };
  }
};
