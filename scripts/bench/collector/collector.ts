import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import { bundlePrograms } from "../../bundle/bundle-programs.ts";
import { type Bench, readBenchOptions, rounded } from "../support/bench.ts";
import { type BenchProcess, cpuSecondsOf, memoryOf } from "../support/processes.ts";
import { type BenchSink, startSink, waitForEnvelopes, withCollector, withFolder, writeLines } from "./collector-run.ts";
import { exportSpans, spansRequest } from "./span-exporter.ts";

const spansPerRequest = 100;
const lines = 600_000;
const idleSeconds = 10;

/** Per second, MB and per cent of one core. */
const goals = { spans: 120_000, lines: 60_000, loadedMb: 200, idleMb: 90, idleCpuPercent: 0.5 };

/**
 * Measures the collector from source to ack: `run` as a process of its own with default settings, between exporters that send
 * OTLP/gRPC requests of 100 spans for `--seconds`, and an ingest service that acknowledges at once. Then the same with a file of
 * 200-byte lines, and an idle collector; `--only` selects parts. A span counts when the ingest service has it and the exporter its
 * response. The floor is a loop that only stores the same requests with node:sqlite, synchronous FULL.
 */
export const collectorBench: Bench = async (args) => {
  const defaults = { seconds: 15, connections: 4, "in-flight": 16, only: "spans,lines,idle" };
  const { seconds, connections, "in-flight": inFlight, only } = readBenchOptions(args, defaults);
  await bundlePrograms();
  const parts = only.split(",");
  const requests = Array.from({ length: 32 }, (_, seed) => spansRequest(spansPerRequest, seed));
  const floor = (await withFolder((folder) => storeRate(folder, requests))) * spansPerRequest;
  await using sink = await startSink();
  const load = { requests, connections, inFlight, seconds };
  const spans = parts.includes("spans") ? await measureSpans(sink, load) : null;
  const tail = parts.includes("lines") ? await withFolder((folder) => measureLines(sink, folder)) : null;
  const idle = parts.includes("idle") ? await withFolder((folder) => measureIdle(sink, folder)) : null;
  const figure = rounded(spans?.per_second ?? Number.NaN);
  const loadedMb = Math.max(spans?.peak_mb ?? 0, tail?.peak_mb ?? 0);
  return {
    figure,
    unit: "spans/s",
    floor: rounded(floor),
    ratio: rounded(figure / floor, 3),
    goal: goals.spans,
    ok:
      figure >= goals.spans &&
      (tail?.per_second ?? 0) >= goals.lines &&
      loadedMb < goals.loadedMb &&
      idle !== null &&
      idle.mb < goals.idleMb &&
      idle.cpu_percent < goals.idleCpuPercent,
    details: { spans, lines: tail, idle, goals, request_bytes: requests[0]?.length },
  };
};

const floorSeconds = 3;
const perTransaction = 64;

/** Returns the payloads a second that node:sqlite alone stores durably and deletes again. */
const storeRate = async (folder: string, payloads: readonly Uint8Array[]): Promise<number> => {
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

const usageOf = ({ pid }: BenchProcess, elapsedSeconds: number) => ({
  cpu_cores: rounded(cpuSecondsOf(pid) / elapsedSeconds, 2),
  peak_mb: memoryOf(pid).peakMb,
});

interface SpanLoad {
  requests: readonly Uint8Array[];
  connections: number;
  inFlight: number;
  seconds: number;
}

const measureSpans = (sink: BenchSink, { requests, seconds, ...load }: SpanLoad) =>
  withCollector(sink, '  - {type: otlp, grpc: {listen: "127.0.0.1:0"}}', async (collector) => {
    const address = collector.records.find(({ transport }) => transport === "grpc")?.address;
    const before = await sink.received();
    const startedAt = performance.now();
    const { accepted, refused } = await exportSpans(
      String(address),
      requests,
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
      ...usageOf(collector, elapsed),
    };
  });

const measureLines = async (sink: BenchSink, folder: string) => {
  const path = join(folder, "app.log");
  await writeLines(path, lines);
  const before = await sink.received();
  return withCollector(sink, `  - {type: file, include: [${path}], start_at: beginning}`, async (collector) => {
    const startedAt = performance.now();
    const early = (await sink.received()) - before;
    await waitForEnvelopes(sink, before + lines);
    const elapsed = (performance.now() - startedAt) / 1000;
    return { per_second: rounded((lines - early) / elapsed), ...usageOf(collector, elapsed) };
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
