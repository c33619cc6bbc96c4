import { readdir, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { bundlePrograms, programPaths } from "../../bundle/bundle-programs.ts";
import { findPorts } from "../../ports.ts";
import { startSink, withCollector, withFolder } from "../collector/collector-run.ts";
import { cpuSecondsOf, memoryOf } from "../support/processes.ts";
import { startOtelcol } from "./otelcol.ts";
import type { Pair, PeerFigures, Side } from "./pair.ts";
import type { PairContext } from "./pairs.ts";
import { startProgram } from "./process.ts";

const settleMs = 2_000;

/** An agent with OTLP over gRPC and HTTP and a file source, to which nothing is sent: ready, idle, installed. */
export const openIdle = async ({ seconds, peers, defer }: PairContext): Promise<Pair> => {
  await bundlePrograms(undefined, ["svc-collector"]);
  const bundleMb = await megabytesOf([dirname(programPaths["svc-collector"])]);
  const nodeMb = await megabytesOf([process.execPath]);
  const sink = defer(await startSink());

  const measure = async (startedAt: number, pid: number, installedMb: number): Promise<PeerFigures> => {
    const ready = (performance.now() - startedAt) / 1000;
    await sleep(settleMs);
    const before = cpuSecondsOf(pid);
    await sleep(seconds * 1000);
    return {
      cpu_percent: ((cpuSecondsOf(pid) - before) / seconds) * 100,
      idle_mb: memoryOf(pid).nowMb,
      ready_s: ready,
      installed_mb: installedMb,
    };
  };
  const sides: Side[] = [
    {
      name: "svc-collector",
      kind: "ours",
      guarantees: "its installed size is Node and the bundle",
      measure: () =>
        withFolder(async (folder) => {
          const sources = `  - {type: otlp, grpc: {listen: "127.0.0.1:0"}, http: {listen: "127.0.0.1:0"}}
  - {type: file, include: ["${join(folder, "*.log")}"]}`;
          const startedAt = performance.now();
          return withCollector(sink, sources, ({ pid }) => measure(startedAt, pid, nodeMb + bundleMb));
        }),
    },
    {
      name: "an empty Node process",
      kind: "floor",
      guarantees: "does nothing",
      measure: async () => {
        const startedAt = performance.now();
        const idle = "console.log('ready'); setInterval(() => undefined, 60_000)";
        const running = await startProgram([process.execPath, "-e", idle], /ready/);
        try {
          return await measure(startedAt, running.pid, nodeMb);
        } finally {
          await running.stop();
        }
      },
    },
  ];
  const program = await peers("otelcol");
  if (program !== undefined) {
    const installedMb = await megabytesOf([program]);
    const theirSink = defer(await startSink(new URL("../collector/otlp-sink.ts", import.meta.url)));
    sides.push({
      name: "otelcol, file_storage with fsync",
      kind: "peer",
      guarantees: "built with only the parts that the bench uses",
      measure: () =>
        withFolder(async (folder) => {
          const [grpc, http] = await findPorts(2);
          const receivers = `  otlp: {protocols: {grpc: {endpoint: "127.0.0.1:${grpc}"}, http: {endpoint: "127.0.0.1:${http}"}}}
  filelog: {include: ["${join(folder, "*.log")}"], storage: file_storage}`;
          const source = { receivers, pipelines: { traces: "otlp", logs: "filelog" } };
          const startedAt = performance.now();
          const running = await startOtelcol(program, folder, theirSink, { queue: "synced-file", source });
          try {
            return await measure(startedAt, running.pid, installedMb);
          } finally {
            await running.stop();
          }
        }),
    });
  }
  return { work: "an idle agent", sides };
};

/** Returns the megabytes of files, and of the files of folders. */
const megabytesOf = async (paths: readonly string[]): Promise<number> => {
  const sizes = await Promise.all(
    paths.map(async (path) => {
      const found = await stat(path);
      if (!found.isDirectory()) return found.size / 1e6;
      return megabytesOf((await readdir(path)).map((name) => join(path, name)));
    }),
  );
  return sizes.reduce((sum, size) => sum + size, 0);
};
