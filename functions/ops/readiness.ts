import type { Clock } from "../../kit/clock.ts";
import type { Log } from "../../kit/log.ts";
import { TimedOut, withTimeout } from "../../kit/with-timeout.ts";

/** What a check, or all of them together, found. `disabled`: not configured, and nothing wrong. */
export type ReadinessStatus = "ready" | "not_ready" | "disabled";

/** What one check found, and in words what an operator should know. */
export interface Finding {
  status: ReadinessStatus;
  detail: string;
}

/** Something that must hold for core to serve. */
export interface Check {
  /** In `snake_case`, stable: alerts are written against it. */
  name: string;
  find(): Promise<Finding> | Finding;
}

/** The answer of a readiness endpoint. */
export interface ReadinessReport {
  status: ReadinessStatus;
  checks: { name: string; status: ReadinessStatus; detail: string | null }[];
}

/** Probes give up after a few seconds; a server that hangs must be told apart from one that is slow (D3). */
const checkTimeoutMs = 2000;

/**
 * Runs the checks at once. Never throws: a check that throws or takes longer than two seconds is `not_ready`. The whole is
 * `not_ready` if any is, `disabled` if all are, else `ready`.
 */
export const runChecks = async (
  checks: readonly Check[],
  { clock, log }: { clock: Clock; log: Log },
): Promise<ReadinessReport> => {
  const findings = await Promise.all(
    checks.map(async (check) => ({ name: check.name, ...(await findInTime(check, { clock, log })) })),
  );
  const has = (status: ReadinessStatus) => findings.some((finding) => finding.status === status);
  const status = has("not_ready") ? "not_ready" : has("disabled") && !has("ready") ? "disabled" : "ready";
  return { status, checks: findings };
};

const findInTime = async (check: Check, { clock, log }: { clock: Clock; log: Log }): Promise<Finding> => {
  try {
    return await withTimeout(checkTimeoutMs, clock, check.find());
  } catch (err) {
    if (err instanceof TimedOut) return { status: "not_ready", detail: err.message };
    log.warn({ check: check.name, err }, "readiness check failed");
    return { status: "not_ready", detail: "the check failed; the log says why" };
  }
};
