import { mkdtemp, open, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { bundlePrograms } from "../bundle/bundle-programs.ts";
import type { Bench } from "./bench.ts";
import { exportSpans, spansRequest } from "./collector/exporter.ts";
import { type Sink, startCollector, startSink } from "./collector/processes.ts";
import { measureStoreLoop } from "./collector/store-loop.ts";
import { cpuSecondsOf, memoryOf } from "./process-usage.ts";

const spansOfRequest = 100;
const lineBytes = 200;
const lines = 600_000;
const idleSeconds = 10;

/** Per second, MB and per cent of one core. */
const goals = { spans: 120_000, lines: 60_000, loadedMb: 200, idleMb: 90, idleCpuPercent: 0.5 };

/**
 * The collector's whole way, in → durable → forward → ack: `run` as a process of its own with default settings, between exporters that
 * send OTLP/gRPC requests of 100 spans for `--seconds` and an ingest service that acknowledges at once. Then the same with a file of
 * 200-byte lines, and a collector that has nothing to do. A span counts when the far end has it and the exporter its answer. The
 * floor is a loop that only stores the same requests with node:sqlite, synchronous FULL.
 */
export const bench: Bench = async (args) => {
  const { values } = parseArgs({
    args: [...args],
    options: {
      seconds: { type: "string", default: "15" },
      connections: { type: "string", default: "4" },
      "in-flight": { type: "string", default: "16" },
      only: { type: "string", default: "spans,lines,idle" },
    },
  });
  await bundlePrograms();
  const parts = values.only.split(",");
  const requests = Array.from({ length: 32 }, (_, seed) => spansRequest(spansOfRequest, seed));
  const floor = (await measureStoreLoop({ payloads: requests, perTransaction: 64, seconds: 3 })) * spansOfRequest;
  const sink = await startSink();
  try {
    const load = { connections: Number(values.connections), inFlight: Number(values["in-flight"]) };
    const spans = parts.includes("spans") ? await spansThrough(sink, requests, load, Number(values.seconds)) : null;
    const tail = parts.includes("lines") ? await linesThrough(sink) : null;
    const idle = parts.includes("idle") ? await idling(sink) : null;
    const figure = Math.round(spans?.per_second ?? Number.NaN);
    const loadedMb = Math.max(spans?.peak_mb ?? 0, tail?.peak_mb ?? 0);
    const ok =
      figure >= goals.spans &&
      (tail?.per_second ?? 0) >= goals.lines &&
      loadedMb < goals.loadedMb &&
      idle !== null &&
      idle.mb < goals.idleMb &&
      idle.cpu_percent < goals.idleCpuPercent;
    const ratio = Math.round((figure / floor) * 1000) / 1000;
    const details = { spans, lines: tail, idle, goals, request_bytes: requests[0]?.length };
    return {
      name: "collector",
      figure,
      unit: "spans/s",
      floor: Math.round(floor),
      ratio,
      goal: goals.spans,
      ok,
      details,
    };
  } finally {
    await sink.close();
  }
};

const spansThrough = async (
  sink: Sink,
  requests: readonly Uint8Array[],
  load: { connections: number; inFlight: number },
  seconds: number,
) => {
  const collector = await startCollector(sink, '  - {type: otlp, grpc: {listen: "127.0.0.1:0"}}');
  const before = await sink.taken();
  const startedAt = performance.now();
  const { accepted, refused } = await exportSpans(
    collector.grpcAddress,
    requests,
    load,
    AbortSignal.timeout(seconds * 1000),
  );
  const left = accepted - ((await sink.taken()).envelopes - before.envelopes);
  await until(async () => (await sink.taken()).envelopes - before.envelopes >= accepted);
  const elapsed = (performance.now() - startedAt) / 1000;
  const figures = {
    per_second: Math.round((accepted * spansOfRequest) / elapsed),
    accepted,
    refused,
    queued_at_the_end: left,
    cpu_cores: Math.round((cpuSecondsOf(collector.pid) / elapsed) * 100) / 100,
    peak_mb: memoryOf(collector.pid).peakMb,
  };
  await collector.stop();
  return figures;
};

const linesThrough = async (sink: Sink) => {
  const folder = await mkdtemp(join(tmpdir(), "bench-lines-"));
  try {
    const path = join(folder, "app.log");
    await writeLines(path);
    const before = await sink.taken();
    const collector = await startCollector(sink, `  - {type: file, include: [${path}], start_at: beginning}`);
    const startedAt = performance.now();
    const early = (await sink.taken()).envelopes - before.envelopes;
    await until(async () => (await sink.taken()).envelopes - before.envelopes >= lines);
    const elapsed = (performance.now() - startedAt) / 1000;
    const figures = {
      per_second: Math.round((lines - early) / elapsed),
      cpu_cores: Math.round((cpuSecondsOf(collector.pid) / elapsed) * 100) / 100,
      peak_mb: memoryOf(collector.pid).peakMb,
    };
    await collector.stop();
    return figures;
  } finally {
    await rm(folder, { recursive: true });
  }
};

/** Everything on, nothing to do: both listeners, and a file that nobody writes to. */
const idling = async (sink: Sink) => {
  const folder = await mkdtemp(join(tmpdir(), "bench-idle-"));
  const collector = await startCollector(
    sink,
    `  - {type: otlp, grpc: {listen: "127.0.0.1:0"}, http: {listen: "127.0.0.1:0"}}
  - {type: file, include: ["${join(folder, "*.log")}"]}`,
  );
  await new Promise((resolve) => setTimeout(resolve, 3_000));
  const before = cpuSecondsOf(collector.pid);
  await new Promise((resolve) => setTimeout(resolve, idleSeconds * 1000));
  const cpuSeconds = cpuSecondsOf(collector.pid) - before;
  const mb = memoryOf(collector.pid).nowMb;
  await collector.stop();
  await rm(folder, { recursive: true });
  return { mb, cpu_percent: Math.round((cpuSeconds / idleSeconds) * 10_000) / 100 };
};

const writeLines = async (path: string): Promise<void> => {
  const file = await open(path, "w");
  const perWrite = 10_000;
  for (let from = 0; from < lines; from += perWrite) {
    let text = "";
    for (let line = from; line < from + perWrite; line++)
      text += `${`2026-11-20T12:00:00.000Z INFO order ${line} was paid in ${line % 977} ms by customer ${line * 7}`.padEnd(lineBytes - 1, ".")}\n`;
    await file.write(text);
  }
  await file.close();
};

const until = async (reached: () => Promise<boolean>): Promise<void> => {
  const giveUpAt = performance.now() + 120_000;
  while (!(await reached())) {
    if (performance.now() > giveUpAt) throw new Error("the far end did not get everything in two minutes");
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
};
