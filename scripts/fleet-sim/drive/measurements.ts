import type { Clock } from "#kit/clock.ts";
import { describeSamples } from "#scripts/lab/quantile.ts";

/** The measurements of a drive up to its report: a fleet that is kept for days must not fill the memory with samples. */
export interface Measurements {
  /** Counts a call of this kind; `failure` is its code unless it went as expected. */
  called(kind: string, ms: number, failure: string | undefined): void;
  /** Counts a refusal that the scenario expects. */
  refused(code: string): void;
  /** Counts a step that began so much after its time. */
  late(ms: number): void;
  report(): {
    operations: Record<
      string,
      { count: number; failed: number; latency_ms: ReturnType<typeof describeSamples> }
    >;
    late_ms: ReturnType<typeof describeSamples>;
    failures: Record<string, number>;
    refusals: Record<string, number>;
  };
}

/** The clock and the receiver of the progress of a drive of `hosts` hosts. */
export interface ProgressOptions {
  clock: Pick<Clock, "monotonic">;
  hosts: number;
  progress(line: string): void;
}

const progressEveryMs = 10_000;

/** Creates empty measurements. They report progress at most every ten seconds, when a step ends. */
export const createMeasurements = ({ clock, hosts, progress }: ProgressOptions): Measurements => {
  const startedAt = clock.monotonic();
  const operations = new Map<string, { failed: number; samples: number[] }>();
  const lateness: number[] = [];
  const failures = new Map<string, number>();
  const refusals = new Map<string, number>();
  const count = (counts: Map<string, number>, code: string) =>
    counts.set(code, (counts.get(code) ?? 0) + 1);
  let isReported = false;
  let enrolled = 0;
  let steps = 0;
  let lateMs = 0;
  let last = { at: startedAt, steps: 0 };

  const reportProgress = (): void => {
    const now = clock.monotonic();
    if (now - last.at < progressEveryMs) return;
    const perSecond = Math.round((1000 * (steps - last.steps)) / (now - last.at));
    const failed = [...failures].map(([code, count]) => `${code} ${count}`).join(", ");
    const parts = [
      `${Math.round((now - startedAt) / 1000)} s: ${enrolled} of ${hosts} enrolled`,
      `${steps} steps, ${perSecond}/s`,
      ...(lateMs < 1000 ? [] : [`${Math.round(lateMs / 1000)} s late`]),
      ...(failed === "" ? [] : [`failed: ${failed}`]),
    ];
    progress(parts.join("; "));
    last = { at: now, steps };
  };

  return {
    called(kind, ms, failure) {
      steps++;
      if (failure === undefined && kind === "enroll") enrolled++;
      if (failure !== undefined) count(failures, failure);
      if (!isReported) {
        const operation = operations.get(kind) ?? { failed: 0, samples: [] };
        operations.set(kind, operation);
        operation.samples.push(ms);
        if (failure !== undefined) operation.failed++;
      }
      reportProgress();
    },
    refused: (code) => void count(refusals, code),
    late(ms) {
      lateMs = ms;
      if (!isReported) lateness.push(ms);
    },
    report() {
      isReported = true;
      return {
        operations: Object.fromEntries(
          [...operations].map(([kind, { failed, samples }]) => [
            kind,
            { count: samples.length, failed, latency_ms: describeSamples(samples) },
          ]),
        ),
        late_ms: describeSamples(lateness),
        failures: Object.fromEntries(failures),
        refusals: Object.fromEntries(refusals),
      };
    },
  };
};
