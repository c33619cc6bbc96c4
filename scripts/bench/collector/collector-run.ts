import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, open, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { collectorNodeFlags, programPaths } from "../../bundle/bundle-programs.ts";
import { type BenchCredentials, writeCollector } from "../support/collector-files.ts";
import { type BenchProcess, startProcess } from "../support/processes.ts";

/** Calls `use` with a new folder, and removes it. */
export const withFolder = async <Result>(use: (folder: string) => Promise<Result>): Promise<Result> => {
  const folder = await mkdtemp(join(tmpdir(), "bench-collector-"));
  try {
    return await use(folder);
  } finally {
    await rm(folder, { recursive: true });
  }
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

/** Starts a sink as a process of its own: `sink.ts`, or another program that prints the same lines. */
export const startSink = async (program = new URL("../ingest/sink.ts", import.meta.url)): Promise<BenchSink> => {
  const child = spawn(process.execPath, [fileURLToPath(program)], {
    stdio: ["pipe", "pipe", "inherit"],
  });
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
  return {
    endpoint,
    tls,
    received: () => ask("?"),
    setRefusing: async (refusing) => void (await ask(refusing ? "refuse" : "accept")),
    [Symbol.asyncDispose]: async () => {
      child.stdin.end();
      await once(child, "exit");
    },
  };
};

/** Runs a collector with these `sources` (YAML) as a process of its own. */
export const withCollector = <Result>(
  { tls, endpoint }: BenchSink,
  sources: string,
  use: (collector: BenchProcess) => Promise<Result>,
): Promise<Result> =>
  withFolder(async (folder) => {
    const config = await writeCollector(folder, { tls, endpoint, sources });
    const args = [...collectorNodeFlags, programPaths["svc-collector"], "run", "--config", config];
    const collector = await startProcess(args, "collector runs");
    try {
      return await use(collector);
    } finally {
      await collector.stop();
    }
  });

/** Writes a log of `count` lines. */
export const writeLines = async (path: string, count: number, nextLine: () => Buffer): Promise<void> => {
  await using file = await open(path, "w");
  const perWrite = 10_000;
  for (let from = 0; from < count; from += perWrite) {
    const lines = Array.from({ length: Math.min(perWrite, count - from) }, () => `${nextLine().toString("latin1")}\n`);
    await file.write(lines.join(""));
  }
};

/** Resolves when the sink has received `count` envelopes; rejects after two minutes. */
export const waitForEnvelopes = async (sink: BenchSink, count: number): Promise<void> => {
  const deadline = performance.now() + 120_000;
  while ((await sink.received()) < count) {
    if (performance.now() > deadline) throw new Error("the sink did not receive all envelopes within two minutes");
    await sleep(20);
  }
};
