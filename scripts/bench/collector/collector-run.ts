import { spawn } from "node:child_process";
import { once } from "node:events";
import { open } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { collectorNodeFlags, programPaths } from "#scripts/bundle/bundle-programs.ts";
import { openTemporaryFolder } from "#scripts/temporary-folder.ts";
import { type BenchCredentials, writeCollector } from "../support/collector-files.ts";
import {
  type BenchProcess,
  cpuSecondsOf,
  memoryOf,
  startMeter,
  startProcess,
} from "../support/processes.ts";
import { exportSpans } from "./span-exporter.ts";

/** Calls `use` with a new folder, and removes it. */
export const withFolder = async <Result>(
  use: (folder: string) => Promise<Result>,
): Promise<Result> => {
  await using folder = await openTemporaryFolder("collector");
  return await use(folder.path);
};

/** The server that collectors forward to; see sink.ts. */
export interface BenchSink extends AsyncDisposable {
  endpoint: string;
  tls: BenchCredentials & { ca: string };
  /** Returns the number of envelopes received so far. */
  received(): Promise<number>;
  /** Closes new connections at once from now on, or no longer. */
  setRefusing(refusing: boolean): Promise<void>;
}

/** Starts a sink as a process of its own: that of our collectors, or that of otelcol. */
export const startSink = async (
  program: "../ingest/sink.ts" | "./otlp-sink.ts" = "../ingest/sink.ts",
) => {
  const path = fileURLToPath(new URL(program, import.meta.url));
  const child = spawn(process.execPath, [path], { stdio: ["pipe", "pipe", "inherit"] });
  const output = createInterface({ input: child.stdout });
  const nextRecord = async () => {
    const [line] = await once(output, "line");
    return JSON.parse(String(line));
  };
  const { endpoint, tls }: Pick<BenchSink, "endpoint" | "tls"> = await nextRecord();
  const ask = async (command: string): Promise<number> => {
    const record = nextRecord();
    child.stdin.write(`${command}\n`);
    const { envelopes }: { envelopes: number } = await record;
    return envelopes;
  };
  const sink: BenchSink = {
    endpoint,
    tls,
    received: () => ask("?"),
    setRefusing: async (refusing) => void (await ask(refusing ? "refuse" : "accept")),
    [Symbol.asyncDispose]: async () => {
      child.stdin.end();
      await once(child, "exit");
    },
  };
  return sink;
};

/** A source of spans, as YAML. */
export const grpcSource = '  - {type: otlp, grpc: {listen: "127.0.0.1:0"}}';

/** Returns where a collector with `grpcSource` listens. */
export const grpcAddressOf = ({ records }: BenchProcess): string =>
  String(records.find(({ transport }) => transport === "grpc")?.address);

/** Both listeners, and a file source without a file, as YAML. */
export const idleSources = (
  folder: string,
): string => `  - {type: otlp, grpc: {listen: "127.0.0.1:0"}, http: {listen: "127.0.0.1:0"}}
  - {type: file, include: ["${join(folder, "*.log")}"]}`;

/** Starts a collector with these `sources` (YAML) and its files in a folder. */
export const startCollector = async (
  folder: string,
  { tls, endpoint }: BenchSink,
  sources: string,
): Promise<BenchProcess> => {
  const config = await writeCollector(folder, { tls, endpoint, sources });
  const args = [...collectorNodeFlags, programPaths["svc-collector"], "run", "--config", config];
  return startProcess(args, "collector runs");
};

/** Runs a collector as a process of its own, as `startCollector` does, in a new folder. */
export const withCollector = <Result>(
  sink: BenchSink,
  sources: string,
  use: (collector: BenchProcess) => Promise<Result>,
): Promise<Result> =>
  withFolder(async (folder) => {
    await using collector = await startCollector(folder, sink, sources);
    return await use(collector);
  });

/** Sends spans to an agent for some seconds, until the sink has them; returns how many requests it accepted and refused, and what they cost. */
export const deliverSpans = async (
  { pid, address }: { pid: number; address: string },
  sink: BenchSink,
  {
    nextRequest,
    seconds,
    countedPerRequest = 1,
    ...load
  }: {
    nextRequest: () => Uint8Array;
    connections: number;
    inFlight: number;
    seconds: number;
    /** How many the sink counts for a request. */
    countedPerRequest?: number;
  },
) => {
  const before = await sink.received();
  const meter = startMeter(() => ({ agent: cpuSecondsOf(pid) }));
  const sent = await exportSpans(
    address,
    nextRequest,
    load,
    AbortSignal.timeout(Math.ceil(seconds * 1000)),
  );
  const expected = sent.accepted * countedPerRequest;
  const queued = expected - ((await sink.received()) - before);
  await waitForEnvelopes(sink, before + expected);
  return { ...sent, queued, ...meter() };
};

/** Returns the CPU and the memory of an agent to which nothing is sent, once it has settled. */
export const measureIdle = async (pid: number, times: { settleMs: number; seconds: number }) => {
  await sleep(times.settleMs);
  const meter = startMeter(() => ({ agent: cpuSecondsOf(pid) }));
  await sleep(times.seconds * 1000);
  const { cpu } = meter();
  return { cpuPercent: (cpu.agent / times.seconds) * 100, mb: memoryOf(pid).nowMb };
};

/** Opens a table in `folder` with node:sqlite, synchronous FULL: the least that a durable queue costs. */
export const openFloorStore = (folder: string) => {
  const database = new DatabaseSync(join(folder, "floor.db"));
  database.exec("PRAGMA page_size = 16384; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL");
  database.exec("CREATE TABLE record (sequence INTEGER PRIMARY KEY, payload ANY NOT NULL) STRICT");
  const insert = database.prepare("INSERT INTO record VALUES (?, ?)");
  const remove = database.prepare("DELETE FROM record WHERE sequence <= ?");
  let stored = 0;
  return {
    /** Stores payloads in a transaction that deletes all but the newest `kept`. */
    store: (payloads: readonly (Uint8Array | string)[], kept = Number.POSITIVE_INFINITY) => {
      database.exec("BEGIN IMMEDIATE");
      for (const payload of payloads) insert.run(++stored, payload);
      if (stored > kept) remove.run(stored - kept);
      database.exec("COMMIT");
    },
    stored: () => stored,
    [Symbol.dispose]: () => database.close(),
  };
};

/** Writes a log of `count` lines. */
export const writeLines = async (
  path: string,
  count: number,
  nextLine: () => Buffer,
): Promise<void> => {
  await using file = await open(path, "w");
  const perWrite = 10_000;
  for (let from = 0; from < count; from += perWrite) {
    const lines = Array.from(
      { length: Math.min(perWrite, count - from) },
      () => `${nextLine().toString("latin1")}\n`,
    );
    await file.write(lines.join(""));
  }
};

/** Resolves when the sink has received `count` envelopes; rejects after two minutes. */
export const waitForEnvelopes = async (sink: BenchSink, count: number): Promise<void> => {
  const deadline = performance.now() + 120_000;
  while ((await sink.received()) < count) {
    if (performance.now() > deadline)
      throw new Error("the sink did not receive all envelopes within two minutes");
    await sleep(20);
  }
};
