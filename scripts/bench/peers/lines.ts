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
import {
  type CorpusRecord,
  createCorpus,
  createSupply,
  describeCorpus,
} from "../support/corpus/corpus.ts";
import { cpuSecondsOf, measureHere, memoryOf, startMeter } from "../support/processes.ts";
import { type OtelcolQueue, startOtelcol } from "./otelcol.ts";
import { type Pair, type PeerFigures, type Side, warmUpShare } from "./pair.ts";
import type { PairContext } from "./pairs.ts";
import { otelcolNames } from "./peer-goals.ts";

const linesPerSecond = 60_000;

/** A program that reads `folder`/*.log and forwards to a sink. */
interface LineReader {
  readonly folder: string;
  readonly pid: number;
  readonly sink: BenchSink;
}

/** Prepares what measures programs by the lines of `records`, of which `isFirst` selects those that begin a record. */
const prepareLines = (seconds: number, records: readonly CorpusRecord[]) => {
  const lines = Math.round(seconds * linesPerSecond);
  const measure = async (
    { folder, pid, sink }: LineReader,
    isFirst: (line: string) => boolean = () => true,
  ): Promise<PeerFigures> => {
    const nextLine = createSupply(records);
    const deliver = async (name: string, count: number) => {
      const before = await sink.received();
      const path = join(folder, name);
      let expected = 0;
      await writeLines(path, count, () => {
        const line = nextLine();
        // The first line of a file continues nothing.
        if (expected === 0 || isFirst(line.toString("latin1"))) expected += 1;
        return line;
      });
      const meter = startMeter(() => ({ agent: cpuSecondsOf(pid) }));
      await rename(path, `${path}.log`);
      await waitForEnvelopes(sink, before + expected);
      return meter();
    };
    await deliver("warm-up", Math.round(lines * warmUpShare));
    const { cpu, seconds: elapsed } = await deliver("measured", lines);
    return {
      cpu_ms: (cpu.agent * 1e6) / lines,
      lines_per_second: lines / elapsed,
      peak_mb: memoryOf(pid).peakMb,
    };
  };
  return { lines, measure };
};

/** Creates our side. `joins` are further keys of its source. */
const createOurSide = (
  sink: BenchSink,
  measure: (reader: LineReader) => Promise<PeerFigures>,
  { name, guarantees, joins = "" }: Pick<Side, "name" | "guarantees"> & { joins?: string },
): Side => ({
  name,
  kind: "ours",
  guarantees,
  measure: () =>
    withFolder((folder) => {
      const source = `  - {type: file, include: ["${join(folder, "*.log")}"], start_at: beginning${joins}}`;
      return withCollector(sink, source, ({ pid }) => measure({ folder, pid, sink }));
    }),
});

/** 1,000 lines of a Java program, of which a seventh is of stack traces, joined to records and forwarded as `openLines` does. */
export const openMultiline = async ({ seconds, defer }: PairContext): Promise<Pair> => {
  await bundlePrograms(["svc-collector"]);
  const mixed = await createCorpus({ mix: "lines" });
  const records = mixed.filter(({ payload }) =>
    /^(?:\d{4}-|com\.|Caused by:|\t)/.test(Buffer.from(payload).toString()),
  );
  const sink = defer(await startSink());
  const { measure } = prepareLines(seconds, records);
  const side = (name: string, joins: string, first: RegExp) =>
    createOurSide(sink, (reader) => measure(reader, (line) => first.test(line)), {
      name,
      guarantees: "as of lines",
      joins: `, multiline: {${joins}}`,
    });
  const sides = [
    side("preset", "preset: java", /^(?:\d|com\.)/),
    side("pattern", "start_pattern: '^\\d{4}-\\d{2}-\\d{2} '", /^\d{4}-\d{2}-\d{2} /),
  ];
  return { work: "1,000 joined lines", sides, corpus: await describeCorpus(records, "lines") };
};

/** 1,000 lines of the corpus: read from a file, queued, compressed, sent over mutual TLS and acknowledged. */
export const openLines = async ({ seconds, peers, defer }: PairContext): Promise<Pair> => {
  await bundlePrograms(["svc-collector"]);
  const records = await createCorpus({ mix: "lines" });
  const ourSink = defer(await startSink());
  const { lines, measure } = prepareLines(seconds, records);
  const sides: Side[] = [
    createOurSide(ourSink, measure, {
      name: "svc-collector",
      guarantees: "position and lines synced together",
    }),
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
          return await measure({ folder: logs, pid: running.pid, sink: theirSink });
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
