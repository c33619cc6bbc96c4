import { quantile } from "#scripts/lab/quantile.ts";
import { startMeter } from "../support/processes.ts";
import type { PeerFigures } from "./pair.ts";

/** CPU seconds of the parts that do the work. */
export type CpuParts = Readonly<Record<string, number>>;

/** Returns the microseconds of CPU for each of `count` units: of all parts as `cpu_us`, and of each that worked when several did. */
export const microsecondsOf = (cpu: CpuParts, count: number): PeerFigures => {
  const each = Object.entries(cpu)
    .map(([part, seconds]) => [part, (seconds * 1e6) / count] as const)
    .filter(([, microseconds]) => microseconds > 0);
  const total = each.reduce((sum, [, microseconds]) => sum + microseconds, 0);
  const parts =
    each.length > 1 ? each.map(([part, microseconds]) => [`cpu_${part}_us`, microseconds]) : [];
  return { cpu_us: total, ...Object.fromEntries(parts) };
};

/** A server that is measured. */
export interface MeasuredServer {
  cpu(): CpuParts;
  peakMb(): number;
}

/** Measures `count` calls, whose latencies `run` returns; `rate` is the name of their number a second. */
export const measureCalls = async (
  { cpu, peakMb }: MeasuredServer,
  { count, rate, run }: { count: number; rate: string; run: () => Promise<Float64Array> },
): Promise<PeerFigures> => {
  const meter = startMeter(cpu);
  const latencies = await run();
  const used = meter();
  return {
    ...microsecondsOf(used.cpu, count),
    [rate]: count / used.seconds,
    p99_ms: quantile(latencies, 0.99),
    peak_mb: peakMb(),
  };
};
