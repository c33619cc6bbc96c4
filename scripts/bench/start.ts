import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { bundlePrograms, collectorNodeFlags, programPaths } from "../bundle/bundle-programs.ts";
import { execute } from "../execute.ts";
import { createLabPki } from "../lab/ca/pki.ts";
import { createTestCa } from "../lab/ca/test-pki.ts";
import { labCoreEnvironment } from "../lab/core-environment.ts";
import { openEmbeddedDatabase } from "../postgres/embedded-database.ts";
import { openTemporaryFolder } from "../temporary-folder.ts";
import { idleSources } from "./collector/collector-run.ts";
import { type Bench, median, rounded } from "./support/bench.ts";
import { issueBenchCredentials, writeCollector } from "./support/collector-files.ts";
import { judgeGoals } from "./support/goals.ts";
import { startProcess } from "./support/processes.ts";

const runs = 7;

/**
 * Measures the seconds until programs are of use: core on a migrated database with ingest and signer to `ready`, the collector's `run`
 * to forwarding, `diag` to its end; medians of seven. Also measures the size of the worker's bundle. The floor is a Node that does
 * nothing.
 */
export const startBench: Bench = async () => {
  await using temporary = await openTemporaryFolder("bench-start");
  const folder = temporary.path;
  await using database = await openEmbeddedDatabase();
  const lab = await createLabPki({ dir: join(folder, "pki") });
  const env = labCoreEnvironment({ databaseUrl: database.url, pki: lab });
  const ca = await createTestCa();
  const credentials = await issueBenchCredentials(ca, {
    type: "url",
    value: "https://fleet.test/d/host-1",
  });
  const config = await writeCollector(join(folder, "host"), {
    tls: { ...credentials, ca: ca.pem },
    endpoint: "core.example.net:8443",
    sources: idleSources(folder),
  });
  await bundlePrograms();
  const collector = [...collectorNodeFlags, programPaths["svc-collector"]];
  const floor = await medianOf(() => secondsToEnd(["-e", "0"], {}));
  const core = await medianOf(() => secondsToLine([programPaths["svc-server"]], env, "ready"));
  const run = await medianOf(() =>
    secondsToLine([...collector, "run", "--config", config], {}, "collector runs"),
  );
  const diag = await medianOf(() => secondsToEnd([...collector, "diag", "--config", config], {}));
  const worker = await workerBytes(join(folder, "worker"));
  const figures = { core_s: core, run_s: run, diag_s: diag, worker_kib: worker / 1024 };
  const judged = judgeGoals("start", figures);
  return {
    figure: core,
    unit: "s",
    floor,
    ratio: rounded(core / floor, 1),
    ...judged,
    details: {
      core_ready_seconds: core,
      collector_run_seconds: run,
      collector_diag_seconds: diag,
      worker_gzip_bytes: worker,
      runs,
      floor: "node -e 0",
    },
  };
};

/** One run before warms the compile caches and the migrated database up. */
const medianOf = async (measure: () => Promise<number>): Promise<number> => {
  await measure();
  const samples: number[] = [];
  for (let run = 0; run < runs; run++) samples.push(await measure());
  return rounded(median(samples), 3);
};

const secondsToEnd = async (
  args: readonly string[],
  env: Record<string, string>,
): Promise<number> => {
  const startedAt = performance.now();
  await execute(process.execPath, args, { env });
  return (performance.now() - startedAt) / 1000;
};

const secondsToLine = async (
  args: readonly string[],
  env: Record<string, string>,
  message: string,
): Promise<number> => {
  const startedAt = performance.now();
  const program = await startProcess(args, message, env);
  const seconds = (performance.now() - startedAt) / 1000;
  await program.stop();
  return seconds;
};

const workerBytes = async (folder: string): Promise<number> => {
  const args = [
    "node_modules/wrangler/bin/wrangler.js",
    "deploy",
    "--dry-run",
    `--outdir=${folder}`,
  ];
  await execute(process.execPath, args, {
    env: { ...process.env, WRANGLER_SEND_METRICS: "false" },
  });
  return gzipSync(await readFile(join(folder, "worker.js"))).length;
};
