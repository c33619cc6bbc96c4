import { readdir, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { bundlePrograms, programPaths } from "#scripts/bundle/bundle-programs.ts";
import { findPorts } from "#scripts/ports.ts";
import {
  idleSources,
  measureIdle,
  startSink,
  withCollector,
  withFolder,
} from "../collector/collector-run.ts";
import { startProgram } from "../support/processes.ts";
import { startOtelcol } from "./otelcol.ts";
import type { Pair, PeerFigures, Side } from "./pair.ts";
import type { PairContext } from "./pairs.ts";
import { otelcolNames } from "./peer-goals.ts";

const settleMs = 2_000;

/** An agent with OTLP over gRPC and HTTP and a file source, to which nothing is sent: ready, idle, installed. */
export const openIdle = async ({ seconds, peers, defer }: PairContext): Promise<Pair> => {
  await bundlePrograms(undefined, ["svc-collector"]);
  const bundleMb = await megabytesOf([dirname(programPaths["svc-collector"])]);
  const nodeMb = await megabytesOf([process.execPath]);
  const sink = defer(await startSink());

  const measure = async (
    startedAt: number,
    pid: number,
    installedMb: number,
  ): Promise<PeerFigures> => {
    const ready = (performance.now() - startedAt) / 1000;
    const { cpuPercent, mb } = await measureIdle(pid, { settleMs, seconds });
    return { cpu_percent: cpuPercent, idle_mb: mb, ready_s: ready, installed_mb: installedMb };
  };
  const sides: Side[] = [
    {
      name: "svc-collector",
      kind: "ours",
      guarantees: "its installed size is Node and the bundle",
      measure: () =>
        withFolder(async (folder) => {
          const startedAt = performance.now();
          return withCollector(sink, idleSources(folder), ({ pid }) =>
            measure(startedAt, pid, nodeMb + bundleMb),
          );
        }),
    },
    {
      name: "an empty Node process",
      kind: "floor",
      guarantees: "does nothing",
      measure: async () => {
        const startedAt = performance.now();
        const idle = "console.log('ready'); setInterval(() => undefined, 60_000)";
        await using running = await startProgram([process.execPath, "-e", idle], (line) =>
          /ready/.test(line),
        );
        return await measure(startedAt, running.pid, nodeMb);
      },
    },
  ];
  const program = await peers("otelcol");
  if (program !== undefined) {
    const installedMb = await megabytesOf([program]);
    const theirSink = defer(await startSink("./otlp-sink.ts"));
    sides.push({
      name: otelcolNames["synced-file"],
      kind: "peer",
      guarantees: "built with only the parts that the bench uses",
      measure: () =>
        withFolder(async (folder) => {
          const [grpc, http] = await findPorts(2);
          const receivers = `  otlp: {protocols: {grpc: {endpoint: "127.0.0.1:${grpc}"}, http: {endpoint: "127.0.0.1:${http}"}}}
  filelog: {include: ["${join(folder, "*.log")}"], storage: file_storage}`;
          const source = { receivers, pipelines: { traces: "otlp", logs: "filelog" } };
          const startedAt = performance.now();
          await using running = await startOtelcol(program, folder, theirSink, {
            queue: "synced-file",
            source,
          });
          return await measure(startedAt, running.pid, installedMb);
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
