import type { Clock } from "../../../kit/clock.ts";
import type { Measurements } from "./measurements.ts";

const everyMs = 10_000;

/**
 * Measurements that tell people every ten seconds how far a drive of `hosts` hosts is. A line comes with a step that ends: while
 * nothing is due nothing is said.
 */
export const reportProgress = (
  measure: Measurements,
  { clock, hosts, progress }: { clock: Clock; hosts: number; progress(line: string): void },
): Measurements => {
  const startedAt = clock.monotonic();
  const failures = new Map<string, number>();
  let [enrolled, steps, lateMs] = [0, 0, 0];
  let told = { at: startedAt, steps: 0 };
  const line = (now: number): string => {
    const perSecond = Math.round((1000 * (steps - told.steps)) / (now - told.at));
    const failed = [...failures].map(([code, count]) => `${code} ${count}`).join(", ");
    return [
      `${Math.round((now - startedAt) / 1000)} s: ${enrolled} of ${hosts} enrolled`,
      `${steps} steps, ${perSecond}/s`,
      ...(lateMs < 1000 ? [] : [`${Math.round(lateMs / 1000)} s late`]),
      ...(failed === "" ? [] : [`failed: ${failed}`]),
    ].join("; ");
  };
  return {
    ...measure,
    late(ms) {
      lateMs = ms;
      measure.late(ms);
    },
    called(kind, ms, failure) {
      measure.called(kind, ms, failure);
      steps++;
      if (failure !== undefined) failures.set(failure, (failures.get(failure) ?? 0) + 1);
      else if (kind === "enroll") enrolled++;
      const now = clock.monotonic();
      if (now - told.at < everyMs) return;
      progress(line(now));
      told = { at: now, steps };
    },
  };
};
