import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { constants, gzipSync } from "node:zlib";
import { bundlePrograms, collectorNodeFlags, programPaths } from "../../bundle/bundle-programs.ts";
import { findPorts } from "../../ports.ts";
import { type BenchSink, startSink, waitForEnvelopes, withFolder } from "../collector/collector-run.ts";
import { exportSpans } from "../collector/span-exporter.ts";
import { writeCollector } from "../support/collector-files.ts";
import { createCorpus, createSupply, describeCorpus } from "../support/corpus/corpus.ts";
import { cpuSecondsOf, memoryOf, startProcess } from "../support/processes.ts";
import { type KilledAgent, measureLosses } from "./losses.ts";
import { type OtelcolQueue, startOtelcol } from "./otelcol.ts";
import type { Pair, PeerFigures, Side } from "./pair.ts";
import type { PairContext } from "./pairs.ts";

const spansPerRequest = 100;
const requestCount = 256;
const load = { connections: 4, inFlight: 16 };
/** A warm-up takes this share of the time, so that the compilers of both sides have seen the work. */
const warmUpShare = 1 / 3;
const synced = "otelcol, file_storage with fsync";

/** An agent that receives spans over OTLP/gRPC. */
interface Agent extends KilledAgent {
  pid: number;
  address: string;
}

/** 1,000 spans in OTLP/gRPC requests of 100, received, queued, compressed, sent over mutual TLS and acknowledged. */
export const openSpans = async ({ seconds, peers, defer }: PairContext): Promise<Pair> => {
  await bundlePrograms(undefined, ["svc-collector"]);
  const requests = await createCorpus({ mix: "spans", records: requestCount, spansOfRequest: spansPerRequest });
  const nextRequest = createSupply(requests);

  /** `countedPerRequest`: how many the sink counts for a request. */
  const createSide = (
    described: Pick<Side, "name" | "kind" | "guarantees">,
    start: (folder: string) => Promise<Agent>,
    { sink, countedPerRequest }: { sink: BenchSink; countedPerRequest: number },
  ): Side => ({
    ...described,
    measure: () =>
      withFolder(async (folder) => {
        const { address, pid, stop } = await start(folder);
        const deliver = async (loadSeconds: number): Promise<number> => {
          const received = await sink.received();
          const signal = AbortSignal.timeout(Math.ceil(loadSeconds * 1000));
          const { accepted } = await exportSpans(address, nextRequest, load, signal);
          await waitForEnvelopes(sink, received + accepted * countedPerRequest);
          return accepted;
        };
        try {
          await deliver(seconds * warmUpShare);
          const [cpuBefore, startedAt] = [cpuSecondsOf(pid), performance.now()];
          const thousands = ((await deliver(seconds)) * spansPerRequest) / 1000;
          return {
            cpu_ms: ((cpuSecondsOf(pid) - cpuBefore) * 1000) / thousands,
            spans_per_second: (thousands * 1000) / ((performance.now() - startedAt) / 1000),
            peak_mb: memoryOf(pid).peakMb,
          };
        } finally {
          await stop();
        }
      }),
    kill: () =>
      withFolder((folder) =>
        measureLosses({
          start: () => start(folder),
          send: async ({ address }, signal) => {
            const { accepted } = await exportSpans(address, nextRequest, load, signal);
            return accepted * spansPerRequest;
          },
          sink,
          unitsPerCounted: spansPerRequest / countedPerRequest,
        }),
      ),
  });

  const ourSink = defer(await startSink());
  const startOurs = async (folder: string): Promise<Agent> => {
    const sources = '  - {type: otlp, grpc: {listen: "127.0.0.1:0"}}';
    const config = await writeCollector(folder, { ...ourSink, sources });
    const args = [...collectorNodeFlags, programPaths["svc-collector"], "run", "--config", config];
    const { pid, records, stop } = await startProcess(args, "collector runs");
    return { pid, stop, address: String(records.find(({ transport }) => transport === "grpc")?.address) };
  };
  const sides = [
    createSide({ name: "svc-collector", kind: "ours", guarantees: "synced before OK" }, startOurs, {
      sink: ourSink,
      countedPerRequest: 1,
    }),
    {
      name: "node:sqlite, gzip",
      kind: "floor" as const,
      guarantees: "stores the requests, synced, and compresses; no network",
      measure: () => withFolder(async (folder) => measureStore(folder, nextRequest)),
    },
  ];
  const program = await peers("otelcol");
  if (program !== undefined) {
    const theirSink = defer(await startSink(new URL("../collector/otlp-sink.ts", import.meta.url)));
    const startTheirs =
      (queue: OtelcolQueue) =>
      async (folder: string): Promise<Agent> => {
        const [port] = await findPorts(1);
        const address = `127.0.0.1:${port}`;
        const receivers = `  otlp: {protocols: {grpc: {endpoint: "${address}"}}}`;
        const source = { receivers, pipelines: { traces: "otlp" } };
        return { address, ...(await startOtelcol(program, folder, theirSink, { queue, source })) };
      };
    const target = { sink: theirSink, countedPerRequest: spansPerRequest };
    const peer = (name: string, guarantees: string) => ({ name, kind: "peer" as const, guarantees });
    sides.push(
      createSide(peer(synced, "synced before OK"), startTheirs("synced-file"), target),
      createSide(peer("otelcol, batch processor", "OK from memory"), startTheirs("memory"), target),
    );
  }
  return { work: "1,000 spans", sides, corpus: await describeCorpus(await createCorpus({ mix: "spans" }), "spans") };
};

const transactions = 150;
const perTransaction = 64;

/** Stores requests with node:sqlite, synchronous FULL, compresses each transaction's, and deletes them again. */
const measureStore = (folder: string, nextRequest: () => Uint8Array): PeerFigures => {
  using database = new DatabaseSync(join(folder, "floor.db"));
  database.exec("PRAGMA page_size = 16384; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL");
  database.exec("CREATE TABLE record (sequence INTEGER PRIMARY KEY, payload BLOB NOT NULL) STRICT");
  const insert = database.prepare("INSERT INTO record VALUES (?, ?)");
  const remove = database.prepare("DELETE FROM record WHERE sequence <= ?");
  const batches = Array.from({ length: 8 }, () => Array.from({ length: perTransaction }, nextRequest));
  const before = process.cpuUsage();
  const startedAt = performance.now();
  let stored = 0;
  for (let transaction = 0; transaction < transactions; transaction++) {
    const batch = batches[transaction % batches.length] ?? [];
    database.exec("BEGIN IMMEDIATE");
    for (const request of batch) insert.run(++stored, request);
    remove.run(stored - 8 * perTransaction);
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
