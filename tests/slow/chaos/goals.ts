import { exportBufferBytes } from "./exported.ts";
import type { Fault } from "./fault.ts";
import { faults } from "./faults.ts";

/** One fault as it happened, with whole milliseconds; null is longer than a minute. */
export interface FaultReport {
  fault: string;
  id: string;
  /** Since the start of the run. */
  at_seconds: number;
  lasted_ms: number;
  /** What the plan drew for it. */
  draws: readonly number[];
  /** From its end until every queue was acknowledged again, until core was ready, and until the export's backend accepted a request. */
  ack_ms: number | null;
  ready_ms: number | null;
  export_ms: number | null;
  /** What the backend stored again, and how often it stored one item at most, until everything worked again. */
  export_repeats: number;
  export_repeated_bytes: number;
  export_times_max: number;
  /** The longest time without an acknowledgement while it lasted. */
  pause_ms: number;
  /** Core's peak memory while it lasted and until it was over. */
  core_peak_mb: number;
  /** Why it could not be injected as written. */
  error?: string;
}

/** The longest time from the end of a fault until the export continues: its lease is over, and it has backed off. */
const exportMsMax = 45_000;

/** Returns the fault of this name, or the goals of two at once: what each needs, one after the other. */
export const faultOf = (name: string): Fault => {
  const [fault, second] = name.split(" + ").map((part) => {
    const found = faults[part];
    if (found === undefined) throw new Error(`no such fault: ${part}`);
    return found;
  }) as [Fault, Fault?];
  if (second === undefined) return fault;
  const inject = () => Promise.reject(new Error("two faults are injected one by one"));
  return {
    id: `${fault.id}, ${second.id}`,
    recoveryMs: { max: fault.recoveryMs.max + second.recoveryMs.max },
    repeats: (fault.repeats ?? 1) + (second.repeats ?? 1),
    inject,
  };
};

/** The recovery of each fault that happened: the longer of acknowledgement and readiness. */
export const recoveryOf = (reports: readonly FaultReport[], name: string) => {
  const times = reports
    .filter(({ fault }) => fault === name)
    .map(({ ack_ms: ack, ready_ms: ready }) =>
      Math.max(ack ?? Number.POSITIVE_INFINITY, ready ?? Number.POSITIVE_INFINITY),
    )
    .sort((a, b) => a - b);
  return { count: times.length, p50: times[times.length >> 1] ?? 0, max: times.at(-1) ?? 0 };
};

/** Returns the goals of a fault that were not met. */
export const brokenGoals = (name: string, reports: readonly FaultReport[]) => {
  const { recoveryMs, pause, repeats = 1 } = faultOf(name);
  const { p50, max } = recoveryOf(reports, name);
  const ofFault = reports.filter(({ fault }) => fault === name);
  const longest = Math.max(0, ...ofFault.map(({ pause_ms: ms }) => ms));
  const timesMax = Math.max(0, ...ofFault.map(({ export_times_max: times }) => times));
  const bytesMax = repeats * exportBufferBytes;
  return [
    ...ofFault
      .filter(({ export_repeated_bytes: bytes }) => bytes > bytesMax)
      .map(
        ({ export_repeated_bytes: bytes }) =>
          `${name}: the export repeated ${bytes} bytes, at most ${bytesMax}`,
      ),
    ...(timesMax > repeats + 1
      ? [`${name}: the export sent an item ${timesMax} times, at most ${repeats + 1}`]
      : []),
    ...ofFault
      .filter(({ export_ms: ms }) => ms === null || ms > exportMsMax)
      .map(
        ({ export_ms: ms }) =>
          `${name}: the export continued after ${ms} ms, at most ${exportMsMax} ms`,
      ),
    ...ofFault.flatMap(({ error }) => (error === undefined ? [] : [`${name}: ${error}`])),
    ...(max > recoveryMs.max
      ? [`${name}: recovery took ${max} ms, at most ${recoveryMs.max} ms`]
      : []),
    ...(recoveryMs.p50 !== undefined && p50 > recoveryMs.p50
      ? [`${name}: recovery took ${p50} ms (p50), at most ${recoveryMs.p50} ms`]
      : []),
    ...(pause !== undefined && longest > pause.msMax
      ? [`${name}: ${longest} ms without an acknowledgement, at most ${pause.msMax} ms`]
      : []),
  ];
};
