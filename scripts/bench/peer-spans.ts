import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { constants, gzipSync } from "node:zlib";
import { bundlePrograms } from "../bundle/bundle-programs.ts";
import { findPorts } from "../ports.ts";
import { type Sink, startSink, waitForEnvelopes, withCollector, withFolder } from "./collector-run.ts";
import { type OtelcolQueue, startOtelcol } from "./peer-otelcol.ts";
import type { Figures, Pair, Side } from "./peer-pair.ts";
import type { PairContext } from "./peer-pairs.ts";
import { cpuSecondsOf, memoryOf } from "./processes.ts";
import { exportSpans, spansRequest } from "./span-exporter.ts";

const spansPerRequest = 100;
const load = { connections: 4, inFlight: 16 };
/** Of the time, before it is measured: until the compilers of both sides have seen the work. */
const warmUpShare = 1 / 3;

/** 1,000 spans in OTLP/gRPC requests of 100, received, queued, compressed, sent over mutual TLS and acknowledged. */
export const openSpans = async ({ seconds, peers, defer }: PairContext): Promise<Pair> => {
  await bundlePrograms(undefined, ["svc-collector"]);
  const requests = Array.from({ length: 32 }, (_, seed) => spansRequest(spansPerRequest, seed));
  const ourSink = defer(await startSink());
  const ours: Side = {
    name: "svc-collector",
    kind: "ours",
    guarantees: "synced before OK; a kill -9 loses nothing",
    measure: () =>
      withCollector(ourSink, '  - {type: otlp, grpc: {listen: "127.0.0.1:0"}}', ({ pid, records }) =>
        measureSpans({
          address: String(records.find(({ transport }) => transport === "grpc")?.address),
          pid,
          sink: ourSink,
          unitsPerRequest: 1,
        }),
      ),
  };
  const measureSpans = async (target: Target): Promise<Figures> => {
    const { address, pid, sink, unitsPerRequest } = target;
    const deliver = async (loadSeconds: number): Promise<number> => {
      const received = await sink.received();
      const { accepted } = await exportSpans(
        address,
        requests,
        load,
        AbortSignal.timeout(Math.ceil(loadSeconds * 1000)),
      );
      await waitForEnvelopes(sink, received + accepted * unitsPerRequest);
      return accepted;
    };
    await deliver(seconds * warmUpShare);
    const cpuBefore = cpuSecondsOf(pid);
    const startedAt = performance.now();
    const thousands = ((await deliver(seconds)) * spansPerRequest) / 1000;
    return {
      cpu_ms: ((cpuSecondsOf(pid) - cpuBefore) * 1000) / thousands,
      spans_per_second: (thousands * 1000) / ((performance.now() - startedAt) / 1000),
      peak_mb: memoryOf(pid).peakMb,
    };
  };
  const floor: Side = {
    name: "node:sqlite, gzip",
    kind: "floor",
    guarantees: "stores the requests, synced, and compresses; no network",
    measure: () => withFolder(async (folder) => measureStore(folder, requests)),
  };
  const sides = [ours, floor];
  const program = await peers("otelcol");
  if (program !== undefined) {
    const theirSink = defer(await startSink(new URL("otlp-sink.ts", import.meta.url)));
    const otelcol = (name: string, queue: OtelcolQueue, guarantees: string): Side => ({
      name,
      kind: "peer",
      guarantees,
      measure: () =>
        withFolder(async (folder) => {
          const [port] = await findPorts(1);
          const address = `127.0.0.1:${port}`;
          const receivers = `  otlp: {protocols: {grpc: {endpoint: "${address}"}}}`;
          const source = { receivers, pipelines: { traces: "otlp" } };
          const running = await startOtelcol(program, folder, theirSink, { queue, source });
          try {
            return await measureSpans({ address, pid: running.pid, sink: theirSink, unitsPerRequest: spansPerRequest });
          } finally {
            await running.stop();
          }
        }),
    });
    sides.push(
      otelcol("otelcol, file_storage with fsync", "synced-file", "synced before OK; a kill -9 loses nothing"),
      otelcol("otelcol, batch processor", "memory", "OK from memory; a kill -9 loses what is queued"),
    );
  }
  const peer = "otelcol, file_storage with fsync";
  return { work: "1,000 spans", sides, goals: [{ peer, figure: "cpu_ms", atMost: 1 }] };
};

interface Target {
  address: string;
  pid: number;
  sink: Sink;
  /** How many the sink counts for a request. */
  unitsPerRequest: number;
}

const transactions = 150;

/** Stores requests with node:sqlite, synchronous FULL, compresses each transaction's, and deletes them again. */
const measureStore = (folder: string, requests: readonly Uint8Array[]): Figures => {
  using database = new DatabaseSync(join(folder, "floor.db"));
  database.exec("PRAGMA page_size = 16384; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL");
  database.exec("CREATE TABLE record (sequence INTEGER PRIMARY KEY, payload BLOB NOT NULL) STRICT");
  const insert = database.prepare("INSERT INTO record VALUES (?, ?)");
  const remove = database.prepare("DELETE FROM record WHERE sequence <= ?");
  const batch = [...requests, ...requests];
  const before = process.cpuUsage();
  const startedAt = performance.now();
  let stored = 0;
  for (let transaction = 0; transaction < transactions; transaction++) {
    database.exec("BEGIN IMMEDIATE");
    for (const request of batch) insert.run(++stored, request);
    remove.run(stored - 8 * batch.length);
    database.exec("COMMIT");
    gzipSync(Buffer.concat(batch), { level: constants.Z_BEST_SPEED });
  }
  const { user, system } = process.cpuUsage(before);
  const thousands = (stored * spansPerRequest) / 1000;
  return {
    cpu_ms: (user + system) / 1000 / thousands,
    spans_per_second: thousands / ((performance.now() - startedAt) / 1e6),
  };
};
