/**
 * `bun run fleet-drive [-- --hosts N] [--seed N] [--duration 20s] [--interval 1s] [--concurrency N] [--many]`: a real core on a durable
 * PostgreSQL of its own, and `svc-fleet-sim --drive` against it over loopback: enrollment at the API, everything else over mutual TLS at
 * the ingest listener. With `--many`, for fleets of many thousands, nobody forwards, and hosts show their certificates in the header.
 * stdout ends with the drive's report, one JSON object; exit code 0 only if the live health report is the predicted one, 2 for usage.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { programPaths } from "../bundle/bundle-programs.ts";
import { clientCertificateHeader } from "../lab/core-process.ts";
import { bridgeTokenOf } from "../lab/operator-api.ts";
import { startTarget, type Target } from "../lab/target.ts";

const usage =
  "usage: bun run fleet-drive [-- --hosts N] [--seed N] [--duration 20s] [--interval 1s] [--concurrency N] [--many]\n";

const readOptions = () => {
  try {
    return parseArgs({
      args: process.argv.slice(2).filter((arg) => arg !== "--"),
      options: {
        hosts: { type: "string", default: "100" },
        seed: { type: "string", default: "7" },
        duration: { type: "string", default: "20s" },
        interval: { type: "string", default: "1s" },
        concurrency: { type: "string", default: "64" },
        many: { type: "boolean", default: false },
      },
    }).values;
  } catch {
    return undefined;
  }
};

type Options = NonNullable<ReturnType<typeof readOptions>>;

/** A bridge token lives for an hour; a drive may take longer. */
const tokenEveryMs = 30 * 60_000;

/** Writes an admin's token, and again before it expires. */
const keepOperatorToken = async (dir: string, secret: string, cleanup: AsyncDisposableStack): Promise<string> => {
  const file = join(dir, "operator-token");
  const write = async () => writeFile(file, await bridgeTokenOf(secret, "admin"), { mode: 0o600 });
  await write();
  const timer = setInterval(() => void write().catch(() => undefined), tokenEveryMs);
  cleanup.defer(() => clearInterval(timer));
  return file;
};

/** Runs the simulator; what it says goes straight to whoever asked. A stop is handed on to it, so that it reports what it did. */
const drive = async (target: Target, args: readonly string[], signal: AbortSignal): Promise<number> => {
  const child = spawn(process.execPath, [programPaths["svc-fleet-sim"], "--drive", target.url, ...args], {
    cwd: new URL("../..", import.meta.url),
    stdio: ["ignore", "inherit", "inherit"],
    // Ctrl-C is for this process alone: it hands it on once.
    detached: true,
  });
  const hand = () => child.kill("SIGINT");
  if (signal.aborted) hand();
  signal.addEventListener("abort", hand, { once: true });
  const [code] = (await once(child, "exit")) as [number | null];
  return code ?? 1;
};

const run = async ({ hosts, seed, duration, interval, concurrency, many }: Options): Promise<number> => {
  const stop = new AbortController();
  for (const name of ["SIGINT", "SIGTERM"] as const)
    process.on(name, () => stop.abort(new Error(`stopped by ${name}`)));
  const dir = await mkdtemp(join(tmpdir(), "svc-fleet-drive-"));
  await using cleanup = new AsyncDisposableStack();
  cleanup.defer(() => rm(dir, { recursive: true, force: true }));
  const target = await startTarget({ dir, stop, env: { SVC_HEARTBEAT_INTERVAL: interval } }, cleanup);
  const operatorTokenFile = await keepOperatorToken(dir, target.authTokenSecret, cleanup);
  const args = [
    ...["--scenario", "fleet-100", "--seed", seed, "--hosts", hosts, "--duration", duration],
    ...["--concurrency", concurrency, "--operator-token-file", operatorTokenFile, "--ca-bundle", target.serverCaFile],
    ...(many ? ["--client-certificate-header", clientCertificateHeader] : ["--ingest", target.ingestEndpoint]),
  ];
  // Awaited here: what was started is stopped when this function ends.
  const code = await drive(target, args, stop.signal);
  if (stop.signal.aborted) process.stderr.write(`fleet-drive: ${(stop.signal.reason as Error).message}\n`);
  return code;
};

const options = readOptions();
if (options === undefined) {
  process.stderr.write(usage);
  process.exitCode = 2;
} else {
  process.exitCode = await run(options).catch((error: unknown) => {
    process.stderr.write(`fleet-drive: ${error instanceof Error ? error.message : "unknown failure"}\n`);
    return 1;
  });
}
