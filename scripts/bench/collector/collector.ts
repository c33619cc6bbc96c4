import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import { bundlePrograms } from "../../bundle/bundle-programs.ts";
import { type Bench, readBenchOptions, rounded } from "../support/bench.ts";
import { createCorpus, createSupply, describeCorpus } from "../support/corpus/corpus.ts";
import { judgeGoals } from "../support/goals.ts";
import { type BenchProcess, cpuSecondsOf, memoryOf } from "../support/processes.ts";
import { type BenchSink, startSink, waitForEnvelopes, withCollector, withFolder, writeLines } from "./collector-run.ts";
import { exportSpans } from "./span-exporter.ts";

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
  const requests = await createCorpus({ mix: "spans", records: requestCount, spansOfRequest: spansPerRequest });
  const lineRecords = await createCorpus({ mix: "lines" });
  const floor = (await withFolder((folder) => storeRate(folder, createSupply(requests)))) * spansPerRequest;
  await using sink = await startSink();
  const load = { nextRequest: createSupply(requests), connections, inFlight, seconds };
  const spans = parts.includes("spans") ? await measureSpans(sink, load) : null;
  const tail = parts.includes("lines")
    ? await withFolder((folder) => measureLines(sink, folder, createSupply(lineRecords)))
    : null;
  const idle = parts.includes("idle") ? await withFolder((folder) => measureIdle(sink, folder)) : null;
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
  const database = new DatabaseSync(join(folder, "floor.db"));
  try {
    database.exec("PRAGMA page_size = 16384; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL");
    database.exec("CREATE TABLE record (sequence INTEGER PRIMARY KEY, payload BLOB NOT NULL) STRICT");
    const insert = database.prepare("INSERT INTO record VALUES (?, ?)");
    const remove = database.prepare("DELETE FROM record WHERE sequence <= ?");
    let stored = 0;
    const startedAt = performance.now();
    while (performance.now() - startedAt < floorSeconds * 1000) {
      database.exec("BEGIN IMMEDIATE");
      for (let index = 0; index < perTransaction; index++)
        insert.run(++stored, payloads[stored % payloads.length] ?? new Uint8Array());
      remove.run(stored - 8 * perTransaction);
      database.exec("COMMIT");
    }
    return (stored / (performance.now() - startedAt)) * 1000;
  } finally {
    database.close();
  }
};

/** `cpu`: its CPU seconds before. */
const usageOf = ({ pid }: BenchProcess, since: { cpu: number; elapsed: number; thousands: number }) => {
  const cpuSeconds = cpuSecondsOf(pid) - since.cpu;
  return {
    cpu_ms_a_thousand: rounded((cpuSeconds * 1000) / since.thousands, 2),
    cpu_cores: rounded(cpuSeconds / since.elapsed, 2),
    peak_mb: memoryOf(pid).peakMb,
  };
};

interface SpanLoad {
  nextRequest: () => Uint8Array;
  connections: number;
  inFlight: number;
  seconds: number;
}

const measureSpans = (sink: BenchSink, { nextRequest, seconds, ...load }: SpanLoad) =>
  withCollector(sink, '  - {type: otlp, grpc: {listen: "127.0.0.1:0"}}', async (collector) => {
    const address = collector.records.find(({ transport }) => transport === "grpc")?.address;
    const before = await sink.received();
    const cpu = cpuSecondsOf(collector.pid);
    const startedAt = performance.now();
    const { accepted, refused } = await exportSpans(
      String(address),
      nextRequest,
      load,
      AbortSignal.timeout(seconds * 1000),
    );
    const queued = accepted - ((await sink.received()) - before);
    await waitForEnvelopes(sink, before + accepted);
    const elapsed = (performance.now() - startedAt) / 1000;
    return {
      per_second: rounded((accepted * spansPerRequest) / elapsed),
      accepted,
      refused,
      queued_at_the_end: queued,
      ...usageOf(collector, { cpu, elapsed, thousands: (accepted * spansPerRequest) / 1000 }),
    };
  });

const measureLines = async (sink: BenchSink, folder: string, nextLine: () => Buffer) => {
  const path = join(folder, "app.log");
  await writeLines(path, lines, nextLine);
  const before = await sink.received();
  return withCollector(sink, `  - {type: file, include: [${path}], start_at: beginning}`, async (collector) => {
    const [startedAt, cpu] = [performance.now(), cpuSecondsOf(collector.pid)];
    const early = (await sink.received()) - before;
    await waitForEnvelopes(sink, before + lines);
    const elapsed = (performance.now() - startedAt) / 1000;
    return {
      per_second: rounded((lines - early) / elapsed),
      ...usageOf(collector, { cpu, elapsed, thousands: (lines - early) / 1000 }),
    };
  });
};

/** With both listeners, and a file source without a file. */
const measureIdle = (sink: BenchSink, folder: string) =>
  withCollector(
    sink,
    `  - {type: otlp, grpc: {listen: "127.0.0.1:0"}, http: {listen: "127.0.0.1:0"}}
  - {type: file, include: ["${join(folder, "*.log")}"]}`,
    async ({ pid }) => {
      await sleep(3_000);
      const before = cpuSecondsOf(pid);
      await sleep(idleSeconds * 1000);
      const cpuSeconds = cpuSecondsOf(pid) - before;
      return { mb: memoryOf(pid).nowMb, cpu_percent: rounded((cpuSeconds / idleSeconds) * 100, 2) };
    },
  );
