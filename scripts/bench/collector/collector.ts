import { join } from "node:path";
import { bundlePrograms } from "#scripts/bundle/bundle-programs.ts";
import { type Bench, readBenchOptions, rounded } from "../support/bench.ts";
import { createCorpus, createSupply, describeCorpus } from "../support/corpus/corpus.ts";
import { judgeGoals } from "../support/goals.ts";
import { type BenchProcess, cpuSecondsOf, memoryOf, startMeter } from "../support/processes.ts";
import {
  type BenchSink,
  deliverSpans,
  grpcAddressOf,
  grpcSource,
  idleSources,
  measureIdle,
  openFloorStore,
  startSink,
  waitForEnvelopes,
  withCollector,
  withFolder,
  writeLines,
} from "./collector-run.ts";

const spansPerRequest = 100;
const requestCount = 256;
const lines = 600_000;
const idleSeconds = 10;

/**
 * Measures the collector from source to ack: `run` as a process of its own with default settings, between exporters that send
 * OTLP/gRPC requests of 100 spans of the corpus for `--seconds`, and an ingest service that acknowledges at once. Then the same with a file of
 * its lines, and an idle collector; `--only` selects parts. A span counts when the ingest service has it and the exporter its
 * response. The floor is a loop that only stores the same requests with node:sqlite, synchronous FULL.
 */
export const collectorBench: Bench = async (args) => {
  const defaults = { seconds: 15, connections: 4, "in-flight": 16, only: "spans,lines,idle" };
  const { seconds, connections, "in-flight": inFlight, only } = readBenchOptions(args, defaults);
  await bundlePrograms();
  const parts = only.split(",");
  const requests = await createCorpus({
    mix: "spans",
    records: requestCount,
    spansOfRequest: spansPerRequest,
  });
  const lineRecords = await createCorpus({ mix: "lines" });
  const floor =
    (await withFolder((folder) => storeRate(folder, createSupply(requests)))) * spansPerRequest;
  await using sink = await startSink();
  const load = { nextRequest: createSupply(requests), connections, inFlight, seconds };
  const spans = parts.includes("spans") ? await measureSpans(sink, load) : null;
  const tail = parts.includes("lines")
    ? await withFolder((folder) => measureLines(sink, folder, createSupply(lineRecords)))
    : null;
  const idle = parts.includes("idle") ? await withFolder((folder) => idleUse(sink, folder)) : null;
  const figure = spans?.cpu_ms_a_thousand ?? Number.NaN;
  const loadedMb = Math.max(spans?.peak_mb ?? 0, tail?.peak_mb ?? 0);
  const judged = judgeGoals("collector", {
    spans_ms: spans?.cpu_ms_a_thousand ?? null,
    spans: spans?.per_second ?? null,
    lines_ms: tail?.cpu_ms_a_thousand ?? null,
    lines: tail?.per_second ?? null,
    loaded_mb: loadedMb || null,
    idle_mb: idle?.mb ?? null,
    idle_percent: idle?.cpu_percent ?? null,
  });
  const corpora = {
    spans: await describeCorpus(await createCorpus({ mix: "spans" }), "spans"),
    lines: await describeCorpus(lineRecords, "lines"),
  };
  return {
    figure,
    unit: "ms of CPU for 1,000 spans (less is better)",
    floor: rounded(1e6 / floor, 3),
    ratio: rounded((figure * floor) / 1e6, 1),
    ...judged,
    details: {
      spans,
      lines: tail,
      idle,
      corpora,
      floor: "wall time of a loop that only stores the same requests",
    },
  };
};

const floorSeconds = 3;
const perTransaction = 64;

/** Returns the payloads a second that node:sqlite alone stores durably and deletes again. */
const storeRate = async (folder: string, nextPayload: () => Uint8Array): Promise<number> => {
  const payloads = Array.from({ length: requestCount }, nextPayload);
  using floor = openFloorStore(folder);
  const startedAt = performance.now();
  while (performance.now() - startedAt < floorSeconds * 1000) {
    const from = floor.stored() % payloads.length;
    floor.store(payloads.slice(from, from + perTransaction), 8 * perTransaction);
  }
  return (floor.stored() / (performance.now() - startedAt)) * 1000;
};

/** Describes what an amount of work cost, in thousands of its units. */
const usageOf = (
  { pid }: BenchProcess,
  cpuSeconds: number,
  seconds: number,
  thousands: number,
) => ({
  per_second: rounded((thousands * 1000) / seconds),
  cpu_ms_a_thousand: rounded((cpuSeconds * 1000) / thousands, 2),
  cpu_cores: rounded(cpuSeconds / seconds, 2),
  peak_mb: memoryOf(pid).peakMb,
});

const measureSpans = (sink: BenchSink, load: Parameters<typeof deliverSpans>[2]) =>
  withCollector(sink, grpcSource, async (collector) => {
    const agent = { pid: collector.pid, address: grpcAddressOf(collector) };
    const { accepted, refused, queued, cpu, seconds } = await deliverSpans(agent, sink, load);
    return {
      accepted,
      refused,
      queued_at_the_end: queued,
      ...usageOf(collector, cpu.agent, seconds, (accepted * spansPerRequest) / 1000),
    };
  });

const measureLines = async (sink: BenchSink, folder: string, nextLine: () => Buffer) => {
  const path = join(folder, "app.log");
  await writeLines(path, lines, nextLine);
  const before = await sink.received();
  return withCollector(
    sink,
    `  - {type: file, include: [${path}], start_at: beginning}`,
    async (collector) => {
      const meter = startMeter(() => ({ agent: cpuSecondsOf(collector.pid) }));
      const early = (await sink.received()) - before;
      await waitForEnvelopes(sink, before + lines);
      const { cpu, seconds } = meter();
      return usageOf(collector, cpu.agent, seconds, (lines - early) / 1000);
    },
  );
};

const idleUse = (sink: BenchSink, folder: string) =>
  withCollector(sink, idleSources(folder), async ({ pid }) => {
    const { cpuPercent, mb } = await measureIdle(pid, { settleMs: 3_000, seconds: idleSeconds });
    return { mb, cpu_percent: rounded(cpuPercent, 2) };
  });
