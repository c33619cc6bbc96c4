import { execFile, spawn } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";
import { systemClock } from "../../kit/clock.ts";
import { systemEntropy } from "../../kit/entropy.ts";
import { bundlePrograms, programPaths } from "../bundle/bundle-programs.ts";
import { createEnrolledHost } from "../lab/enrolled-host.ts";
import { createLabPki } from "../lab-ca/pki.ts";
import { openEmbeddedDatabase } from "../postgres/embedded-database.ts";
import type { Bench } from "./bench.ts";

const execute = promisify(execFile);
const runs = 7;

/** Upper bounds, in seconds and bytes. */
const goals = { core: 1, run: 0.4, diag: 0.3, worker: 1024 * 1024 };

/**
 * How long programs take to be of use: core on a migrated database with ingest and signer to `ready`, the collector's `run` to
 * forwarding, `diag` to its end; medians of seven. Beside it the size of the worker's bundle. The floor is a Node that does nothing.
 */
export const bench: Bench = async () => {
  const folder = await mkdtemp(join(tmpdir(), "svc-bench-start-"));
  const database = await openEmbeddedDatabase();
  const host = await createEnrolledHost({
    more: `run_as_root_acknowledged: I-UNDERSTAND-ROOT-MODE
sources:
  - {type: otlp, grpc: {listen: "127.0.0.1:0"}, http: {listen: "127.0.0.1:0"}}
  - {type: file, include: [${join(folder, "*.log")}]}
`,
  });
  try {
    const lab = await createLabPki({ dir: join(folder, "pki"), clock: systemClock });
    const env = {
      PORT: "0",
      SVC_DATABASE_URL: database.url,
      SVC_TENANT_ID: "01920000-0000-7000-8000-000000000001",
      SVC_AUTH_TOKEN_SECRET: systemEntropy.bytes(32).toHex(),
      SVC_DIRECTORY_DOMAIN: "fleet.bench",
      SVC_DIRECTORY_DELEGATE_EMAIL: "root@fleet.bench",
      SVC_DIRECTORY_SERVICE_ACCOUNT_KEY_FILE: "/nowhere",
      SVC_INGEST_GRPC_ADDR: "127.0.0.1:0",
      SVC_INGEST_SERVER_CERT_FILE: lab.ingest.certFile,
      SVC_INGEST_SERVER_KEY_FILE: lab.ingest.keyFile,
      SVC_INGEST_CLIENT_CA_FILE: lab.enrollmentCa.certFile,
      SVC_ENROLLMENT_CA_CERT_FILE: lab.enrollmentCa.certFile,
      SVC_ENROLLMENT_CA_KEY_FILE: lab.enrollmentCa.keyFile,
    };
    await bundlePrograms();
    const collector = [programPaths["svc-collector"]];
    const floor = await median(() => secondsToEnd(["-e", "0"], {}));
    const core = await median(() => secondsToLine([programPaths["svc-server"]], env, "ready"));
    const run = await median(() => secondsToLine([...collector, "run", "--config", host.config], {}, "collector runs"));
    const diag = await median(() => secondsToEnd([...collector, "diag", "--config", host.config], {}));
    const worker = await workerBytes(join(folder, "worker"));
    const ok = core < goals.core && run < goals.run && diag < goals.diag && worker < goals.worker;
    return {
      name: "start",
      figure: core,
      unit: "s",
      floor,
      ratio: Math.round((core / floor) * 10) / 10,
      goal: goals.core,
      ok,
      details: {
        core_ready_seconds: core,
        collector_run_seconds: run,
        collector_diag_seconds: diag,
        worker_gzip_bytes: worker,
        goals,
        runs,
        floor: "node -e 0",
      },
    };
  } finally {
    await host.remove();
    await database.close();
    await rm(folder, { recursive: true });
  }
};

/** The first run goes ahead, so that compile caches and the migrated database are there. */
const median = async (measure: () => Promise<number>): Promise<number> => {
  await measure();
  const samples: number[] = [];
  for (let run = 0; run < runs; run++) samples.push(await measure());
  samples.sort((a, b) => a - b);
  return Math.round((samples[Math.floor(runs / 2)] ?? Number.NaN) * 1000) / 1000;
};

const secondsToEnd = async (args: readonly string[], env: Record<string, string>): Promise<number> => {
  const startedAt = performance.now();
  await execute(process.execPath, args, { env });
  return (performance.now() - startedAt) / 1000;
};

/** Seconds until the program logs `message`; then it is told to end. */
const secondsToLine = async (
  args: readonly string[],
  env: Record<string, string>,
  message: string,
): Promise<number> => {
  const startedAt = performance.now();
  const child = spawn(process.execPath, args, { env, stdio: ["ignore", "pipe", "pipe"] });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  const seen: string[] = [];
  const seconds = await new Promise<number>((resolve, reject) => {
    for (const stream of [child.stdout, child.stderr])
      createInterface(stream).on("line", (line) => {
        seen.push(line);
        if (line.includes(`"msg":"${message}"`)) resolve((performance.now() - startedAt) / 1000);
      });
    child.once("exit", (code) => reject(new Error(`${args[0]} ended with ${code}:\n${seen.join("\n")}`)));
  });
  child.kill("SIGTERM");
  await ended;
  return seconds;
};

const workerBytes = async (folder: string): Promise<number> => {
  await execute(
    process.execPath,
    ["node_modules/wrangler/bin/wrangler.js", "deploy", "--dry-run", `--outdir=${folder}`],
    {
      env: { ...process.env, WRANGLER_SEND_METRICS: "false" },
    },
  );
  return gzipSync(await readFile(join(folder, "worker.js"))).length;
};
