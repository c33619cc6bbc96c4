import { constants, gzipSync } from "node:zlib";
import { bundlePrograms } from "#scripts/bundle/bundle-programs.ts";
import { findPorts } from "#scripts/ports.ts";
import {
  type BenchSink,
  deliverSpans,
  grpcAddressOf,
  grpcSource,
  openFloorStore,
  startCollector,
  startSink,
  withFolder,
} from "../collector/collector-run.ts";
import { exportSpans } from "../collector/span-exporter.ts";
import { createCorpus, createSupply, describeCorpus } from "../support/corpus/corpus.ts";
import { measureHere, memoryOf } from "../support/processes.ts";
import { type KilledAgent, measureLosses } from "./losses.ts";
import { type OtelcolQueue, startOtelcol } from "./otelcol.ts";
import { type Pair, type PeerFigures, type Side, warmUpShare } from "./pair.ts";
import type { PairContext } from "./pairs.ts";
import { otelcolNames } from "./peer-goals.ts";

const spansPerRequest = 100;
const requestCount = 256;
const load = { connections: 4, inFlight: 16 };

/** An agent that receives spans over OTLP/gRPC. */
interface Agent extends KilledAgent {
  pid: number;
  address: string;
}

/** 1,000 spans in OTLP/gRPC requests of 100, received, queued, compressed, sent over mutual TLS and acknowledged. */
export const openSpans = async ({ seconds, peers, defer }: PairContext): Promise<Pair> => {
  await bundlePrograms(["svc-collector"]);
  const requests = await createCorpus({
    mix: "spans",
    records: requestCount,
    spansOfRequest: spansPerRequest,
  });
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
        const deliver = (loadSeconds: number) =>
          deliverSpans({ pid, address }, sink, {
            ...load,
            nextRequest,
            seconds: loadSeconds,
            countedPerRequest,
          });
        try {
          await deliver(seconds * warmUpShare);
          const used = await deliver(seconds);
          const thousands = (used.accepted * spansPerRequest) / 1000;
          return {
            cpu_ms: (used.cpu.agent * 1000) / thousands,
            spans_per_second: (thousands * 1000) / used.seconds,
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
    const collector = await startCollector(folder, ourSink, grpcSource);
    return { ...collector, address: grpcAddressOf(collector) };
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
    const theirSink = defer(await startSink("./otlp-sink.ts"));
    const otelcol = (queue: OtelcolQueue, guarantees: string): Side => {
      const start = async (folder: string): Promise<Agent> => {
        const [port] = await findPorts(1);
        const address = `127.0.0.1:${port}`;
        const receivers = `  otlp: {protocols: {grpc: {endpoint: "${address}"}}}`;
        const source = { receivers, pipelines: { traces: "otlp" } };
        return { address, ...(await startOtelcol(program, folder, theirSink, { queue, source })) };
      };
      return createSide({ name: otelcolNames[queue], kind: "peer", guarantees }, start, {
        sink: theirSink,
        countedPerRequest: spansPerRequest,
      });
    };
    sides.push(otelcol("synced-file", "synced before OK"), otelcol("memory", "OK from memory"));
  }
  return {
    work: "1,000 spans",
    sides,
    corpus: await describeCorpus(await createCorpus({ mix: "spans" }), "spans"),
  };
};

const transactions = 150;
const perTransaction = 64;

/** Stores requests with node:sqlite, synchronous FULL, compresses each transaction's, and deletes them again. */
const measureStore = async (
  folder: string,
  nextRequest: () => Uint8Array,
): Promise<PeerFigures> => {
  using floor = openFloorStore(folder);
  const batches = Array.from({ length: 8 }, () =>
    Array.from({ length: perTransaction }, nextRequest),
  );
  const { cpuSeconds, seconds } = await measureHere(() => {
    for (let transaction = 0; transaction < transactions; transaction++) {
      const batch = batches[transaction % batches.length] ?? [];
      floor.store(batch, 8 * perTransaction);
      gzipSync(Buffer.concat(batch), { level: constants.Z_BEST_SPEED });
    }
  });
  const thousands = (floor.stored() * spansPerRequest) / 1000;
  return {
    cpu_ms: (cpuSeconds * 1000) / thousands,
    spans_per_second: (thousands * 1000) / seconds,
  };
};
