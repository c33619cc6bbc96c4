/** Milliseconds that calls took: all of them, and the slow ones. */
export interface Quantiles {
  p50: number;
  p95: number;
  p99: number;
  max: number;
}

/** What a drive measures, up to its report: a fleet that is kept for days must not fill the memory with samples. */
export interface Measurements {
  /** A call of this kind took so long, and ended with this code; undefined if it went as it should. */
  called(kind: string, ms: number, failure: string | undefined): void;
  /** Core refused as the story has it. */
  refused(code: string): void;
  /** A step began so much after its time. */
  late(ms: number): void;
  report(): {
    operations: Record<string, { count: number; failed: number; latency_ms: Quantiles }>;
    late_ms: Quantiles;
    failures: Record<string, number>;
    refusals: Record<string, number>;
  };
}

/** Nothing measured yet. */
export const createMeasurements = (): Measurements => {
  const operations = new Map<string, { failed: number; samples: number[] }>();
  const lateness: number[] = [];
  const failures = new Map<string, number>();
  const refusals = new Map<string, number>();
  let isReported = false;
  const count = (counts: Map<string, number>, code: string) => counts.set(code, (counts.get(code) ?? 0) + 1);
  return {
    called(kind, ms, failure) {
      if (isReported) return;
      const operation = operations.get(kind) ?? { failed: 0, samples: [] };
      operations.set(kind, operation);
      operation.samples.push(ms);
      if (failure === undefined) return;
      operation.failed++;
      count(failures, failure);
    },
    refused(code) {
      if (!isReported) count(refusals, code);
    },
    late(ms) {
      if (!isReported) lateness.push(ms);
    },
    report() {
      isReported = true;
      return {
        operations: Object.fromEntries(
          [...operations].map(([kind, { failed, samples }]) => [
            kind,
            { count: samples.length, failed, latency_ms: quantilesOf(samples) },
          ]),
        ),
        late_ms: quantilesOf(lateness),
        failures: Object.fromEntries(failures),
        refusals: Object.fromEntries(refusals),
      };
    },
  };
};

const quantilesOf = (samples: readonly number[]): Quantiles => {
  const sorted = Float64Array.from(samples).sort();
  const at = (part: number) =>
    Math.round((sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? 0) * 100) / 100;
  return { p50: at(0.5), p95: at(0.95), p99: at(0.99), max: at(1) };
};
