import { mkdir, readdir, rename, stat, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { bundlePrograms, programPaths } from "#scripts/bundle/bundle-programs.ts";
import { findPorts } from "#scripts/ports.ts";
import {
  type BenchSink,
  idleSources,
  measureIdle,
  startSink,
  waitForEnvelopes,
  withCollector,
  withFolder,
} from "../collector/collector-run.ts";
import { startProgram } from "../support/processes.ts";
import { startOtelcol } from "./otelcol.ts";
import type { Pair, PeerFigures, Side } from "./pair.ts";
import type { PairContext } from "./pairs.ts";
import { otelcolNames } from "./peer-goals.ts";

const settleMs = 2_000;

/** The side with many followed files. */
export const manyFilesName = "svc-collector, 5,000 files";
const directories = 100;
const filesOfDirectory = 50;
/** All of them are watched after 45 s; each minute, directories that are not are read again. */
const filesTimes = { settleMs: 45_000, seconds: 60 };
const rotations = 10;

/** Returns the most milliseconds after which the sink has a line of a file that has replaced another one. */
const measureRotations = async (folder: string, sink: BenchSink): Promise<number> => {
  let slowest = 0;
  for (let directory = 0; directory < rotations; directory++) {
    const path = join(folder, `${directory}`, "0.log");
    const before = await sink.received();
    const startedAt = performance.now();
    await rename(path, `${path}.1`);
    await writeFile(path, "the first line after a rotation\n");
    await waitForEnvelopes(sink, before + 1);
    slowest = Math.max(slowest, performance.now() - startedAt);
  }
  return slowest;
};

/** Writes the files. */
const writeLogs = async (folder: string) => {
  for (let directory = 0; directory < directories; directory++) {
    const path = join(folder, `${directory}`);
    await mkdir(path);
    for (let file = 0; file < filesOfDirectory; file++)
      await writeFile(join(path, `${file}.log`), `line of ${directory}/${file}\n`);
  }
};

/** An agent with OTLP over gRPC and HTTP and a file source, to which nothing is sent: ready, idle, installed. */
export const openIdle = async ({ seconds, peers, defer }: PairContext): Promise<Pair> => {
  await bundlePrograms(["svc-collector"]);
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
      name: manyFilesName,
      kind: "ours",
      guarantees: "follows them; nobody writes to them",
      measure: () =>
        withFolder(async (folder) => {
          await writeLogs(folder);
          const before = await sink.received();
          const source = `  - {type: file, include: ["${join(folder, "*/*.log")}"], start_at: beginning}`;
          return withCollector(sink, source, async ({ pid }) => {
            await waitForEnvelopes(sink, before + directories * filesOfDirectory);
            const { cpuPercent, mb } = await measureIdle(pid, filesTimes);
            const rotatedMs = await measureRotations(folder, sink);
            return { cpu_percent: cpuPercent, idle_mb: mb, rotated_ms: rotatedMs };
          });
        }),
    },
    {
      name: "an empty Node process",
      kind: "floor",
      guarantees: "does nothing",
      measure: async () => {
        const startedAt = performance.now();
        const idle = "console.log('ready'); setInterval(() => undefined, 60_000)";
        await using running = await startProgram({
          command: [process.execPath, "-e", idle],
          ready: /ready/,
        });
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
