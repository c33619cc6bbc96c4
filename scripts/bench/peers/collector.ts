import { readCommandOptions } from "#scripts/read-command-options.ts";
import { type Bench, rounded } from "../support/bench.ts";
import { judgeGoals } from "../support/goals.ts";
import { manyFilesName } from "./idle.ts";
import type { SideResult } from "./pair.ts";
import { measureNamed, readPairNames } from "./pairs.ts";

/**
 * Measures the collector alone by the pairs of agents (`--only spans,lines,multiline,idle`), without a peer: `run` as a process of its own
 * with default settings, from source to ack. A side works for `--seconds`, after a third of that to warm up. The floor is a loop that only
 * stores and compresses the same requests, synced.
 */
export const collectorBench: Bench = async (args) => {
  const options = readCommandOptions({ seconds: 15, only: "spans,lines,multiline,idle" }, args);
  const parts: Record<string, readonly SideResult[]> = {};
  const corpora: Record<string, unknown> = {};
  for (const name of readPairNames(options.only)) {
    const { results, corpus } = await measureNamed(name, { seconds: options.seconds, rounds: 1 });
    parts[name] = results;
    corpora[name] = corpus;
  }
  /** Returns a figure of our first side, or of the side with this name or of this kind. */
  const of = (part: string, figure: string, which = "ours") =>
    parts[part]?.find(({ side }) => [side.kind, side.name].includes(which))?.figures[figure] ??
    null;
  const figure = of("spans", "cpu_ms") ?? Number.NaN;
  const floor = of("spans", "cpu_ms", "floor") ?? Number.NaN;
  const judged = judgeGoals("collector", {
    spans_ms: of("spans", "cpu_ms"),
    spans: of("spans", "spans_per_second"),
    lines_ms: of("lines", "cpu_ms"),
    lines: of("lines", "lines_per_second"),
    preset_ms: of("multiline", "cpu_ms", "preset"),
    pattern_ms: of("multiline", "cpu_ms", "pattern"),
    loaded_mb: Math.max(of("spans", "peak_mb") ?? 0, of("lines", "peak_mb") ?? 0) || null,
    idle_mb: of("idle", "idle_mb"),
    idle_percent: of("idle", "cpu_percent"),
    files_mb: of("idle", "idle_mb", manyFilesName),
    files_percent: of("idle", "cpu_percent", manyFilesName),
    rotated_ms: of("idle", "rotated_ms", manyFilesName),
  });
  return {
    figure: rounded(figure, 2),
    unit: "ms of CPU for 1,000 spans (less is better)",
    floor: rounded(floor, 3),
    ratio: rounded(figure / floor, 1),
    ...judged,
    details: { ...options, parts, corpora },
  };
};
