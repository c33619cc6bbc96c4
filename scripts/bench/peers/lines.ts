import { mkdir, readFile, rename } from "node:fs/promises";
import { join } from "node:path";
import { constants, gzipSync } from "node:zlib";
import { bundlePrograms } from "#scripts/bundle/bundle-programs.ts";
import {
  type BenchSink,
  openFloorStore,
  startSink,
  waitForEnvelopes,
  withCollector,
  withFolder,
  writeLines,
} from "../collector/collector-run.ts";
import { createCorpus, createSupply, describeCorpus } from "../support/corpus/corpus.ts";
import { cpuSecondsOf, measureHere, memoryOf, startMeter } from "../support/processes.ts";
import { type OtelcolQueue, startOtelcol } from "./otelcol.ts";
import { type Pair, type PeerFigures, type Side, warmUpShare } from "./pair.ts";
import type { PairContext } from "./pairs.ts";
import { otelcolNames } from "./peer-goals.ts";

const linesPerSecond = 60_000;

/** 1,000 lines of the corpus: read from a file, queued, compressed, sent over mutual TLS and acknowledged. */
export const openLines = async ({ seconds, peers, defer }: PairContext): Promise<Pair> => {
  await bundlePrograms(undefined, ["svc-collector"]);
  const lines = Math.round(seconds * linesPerSecond);
  const warmUpLines = Math.round(lines * warmUpShare);
  const records = await createCorpus({ mix: "lines" });
  const ourSink = defer(await startSink());

  /** Measures a program that reads `folder`/*.log and forwards to a sink. */
  const measure = async (folder: string, pid: number, sink: BenchSink): Promise<PeerFigures> => {
    const nextLine = createSupply(records);
    const deliver = async (name: string, count: number) => {
      const before = await sink.received();
      await writeLines(join(folder, name), count, nextLine);
      const meter = startMeter(() => ({ agent: cpuSecondsOf(pid) }));
      await rename(join(folder, name), join(folder, `${name}.log`));
      await waitForEnvelopes(sink, before + count);
      return meter();
    };
    await deliver("warm-up", warmUpLines);
    const { cpu, seconds: elapsed } = await deliver("measured", lines);
    return {
      cpu_ms: (cpu.agent * 1e6) / lines,
      lines_per_second: lines / elapsed,
      peak_mb: memoryOf(pid).peakMb,
    };
  };
  const sides: Side[] = [
    {
      name: "svc-collector",
      kind: "ours",
      guarantees: "position and lines synced together",
      measure: () =>
        withFolder((folder) => {
          const source = `  - {type: file, include: ["${join(folder, "*.log")}"], start_at: beginning}`;
          return withCollector(ourSink, source, ({ pid }) => measure(folder, pid, ourSink));
        }),
    },
    {
      name: "node:sqlite, gzip",
      kind: "floor",
      guarantees: "reads and stores the lines, synced, and compresses; nothing sent",
      measure: () => withFolder((folder) => measureStore(folder, lines, createSupply(records))),
    },
  ];
  const program = await peers("otelcol");
  if (program !== undefined) {
    const theirSink = defer(await startSink("./otlp-sink.ts"));
    const otelcol = (queue: OtelcolQueue, guarantees: string): Side => ({
      name: otelcolNames[queue],
      kind: "peer",
      guarantees,
      measure: () =>
        withFolder(async (folder) => {
          const logs = join(folder, "logs");
          await mkdir(logs);
          const storage = queue === "synced-file" ? ", storage: file_storage" : "";
          const receivers = `  filelog: {include: ["${join(logs, "*.log")}"], start_at: beginning${storage}}`;
          const source = { receivers, pipelines: { logs: "filelog" } };
          await using running = await startOtelcol(program, folder, theirSink, { queue, source });
          return await measure(logs, running.pid, theirSink);
        }),
    });
    sides.push(
      otelcol("synced-file", "position and queue synced"),
      otelcol("memory", "position and queue in memory"),
    );
  }
  return { work: "1,000 lines", sides, corpus: await describeCorpus(records, "lines") };
};

const linesOfTransaction = 1000;

/** Reads a file of lines, stores each line as a row with node:sqlite, synchronous FULL, and compresses each transaction's. */
const measureStore = async (
  folder: string,
  count: number,
  nextLine: () => Buffer,
): Promise<PeerFigures> => {
  const path = join(folder, "app.log");
  await writeLines(path, count, nextLine);
  const { cpuSeconds, seconds } = await measureHere(async () => {
    const lines = (await readFile(path, "utf8")).split("\n").slice(0, count);
    using floor = openFloorStore(folder);
    while (floor.stored() < count) {
      const batch = lines.slice(floor.stored(), floor.stored() + linesOfTransaction);
      floor.store(batch);
      gzipSync(batch.join("\n"), { level: constants.Z_BEST_SPEED });
    }
  });
  return { cpu_ms: (cpuSeconds * 1e6) / count, lines_per_second: count / seconds };
};
