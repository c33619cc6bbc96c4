import type { Fault } from "./fault.ts";
import { faults } from "./faults.ts";

/** One fault as it happened, with whole milliseconds; null is longer than a minute. */
export interface FaultReport {
  fault: string;
  id: string;
  /** Since the start of the run. */
  at_seconds: number;
  lasted_ms: number;
  /** From its end until every queue was acknowledged again, and until core was ready. */
  ack_ms: number | null;
  ready_ms: number | null;
  /** The longest time without an acknowledgement while it lasted. */
  pause_ms: number;
  /** Core's peak memory while it lasted and until it was over. */
  core_peak_mb: number;
  /** Why it could not be injected as written. */
  error?: string;
}

/** Returns the fault of this name. */
export const faultOf = (name: string): Fault => {
  const fault = faults[name];
  if (fault === undefined) throw new Error(`no such fault: ${name}`);
  return fault;
};

/** The recovery of each fault that happened: the longer of acknowledgement and readiness. */
export const recoveryOf = (
  reports: readonly FaultReport[],
  name: string,
): { count: number; p50: number; max: number } => {
  const times = reports
    .filter(({ fault }) => fault === name)
    .map(({ ack_ms: ack, ready_ms: ready }) =>
      Math.max(ack ?? Number.POSITIVE_INFINITY, ready ?? Number.POSITIVE_INFINITY),
    )
    .sort((a, b) => a - b);
  return { count: times.length, p50: times[times.length >> 1] ?? 0, max: times.at(-1) ?? 0 };
};

/** Returns the goals of a fault that were not met. */
export const brokenGoals = (name: string, reports: readonly FaultReport[]): string[] => {
  const { recoveryMs, pause } = faultOf(name);
  const { p50, max } = recoveryOf(reports, name);
  const ofFault = reports.filter(({ fault }) => fault === name);
  const longest = Math.max(0, ...ofFault.map(({ pause_ms: ms }) => ms));
  return [
    ...ofFault.flatMap(({ error }) => (error === undefined ? [] : [`${name}: ${error}`])),
    ...(max > recoveryMs.max ? [`${name}: recovery took ${max} ms, at most ${recoveryMs.max} ms`] : []),
    ...(recoveryMs.p50 !== undefined && p50 > recoveryMs.p50
      ? [`${name}: recovery took ${p50} ms (p50), at most ${recoveryMs.p50} ms`]
      : []),
    ...(pause !== undefined && longest > pause.msMax
      ? [`${name}: ${longest} ms without an acknowledgement, at most ${pause.msMax} ms`]
      : []),
  ];
};
