/**
 * `bun run fleet-drive [-- --hosts N] [--seed N] [--duration 20s] [--interval 1s] [--concurrency N] [--many]`: a real core on a durable
 * PostgreSQL of its own, and `svc-fleet-sim --drive` against it over loopback: enrollment at the API, everything else over mutual TLS at
 * the ingest listener. With `--many`, for fleets of many thousands, nobody forwards, and hosts show their certificates in the header.
 * stdout ends with the drive's report, one JSON object; exit code 0 only if the live health report is the predicted one, 2 for usage.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { programPaths } from "../bundle/bundle-programs.ts";
import { describeError, type LabContext, withLab } from "../lab/context.ts";
import { clientCertificateHeader } from "../lab/core-process.ts";
import { type LabCore, startLabCore } from "../lab/lab-core.ts";
import { bridgeTokenOf } from "../lab/operator-api.ts";

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

/** Runs the simulator with our own stdout and stderr. An abort interrupts it, so that it reports what it did. */
const drive = async (core: LabCore, args: readonly string[], signal: AbortSignal): Promise<number> => {
  const child = spawn(process.execPath, [programPaths["svc-fleet-sim"], "--drive", core.httpUrl, ...args], {
    cwd: new URL("../..", import.meta.url),
    stdio: ["ignore", "inherit", "inherit"],
    // Ctrl-C goes to this process alone, which passes it on once.
    detached: true,
  });
  const interrupt = () => child.kill("SIGINT");
  if (signal.aborted) interrupt();
  signal.addEventListener("abort", interrupt, { once: true });
  const [code] = (await once(child, "exit")) as [number | null];
  return code ?? 1;
};

const run = async (options: Options, context: LabContext, cleanup: AsyncDisposableStack): Promise<number> => {
  const { hosts, seed, duration, interval, concurrency, many } = options;
  const core = await startLabCore({ env: { SVC_HEARTBEAT_INTERVAL: interval } }, context, cleanup);
  const operatorTokenFile = await keepOperatorToken(context.dir, core.authTokenSecret, cleanup);
  const args = [
    ...["--scenario", "fleet-100", "--seed", seed, "--hosts", hosts, "--duration", duration],
    ...["--concurrency", concurrency, "--operator-token-file", operatorTokenFile, "--ca-bundle", core.pki.serverCaFile],
    ...(many ? ["--client-certificate-header", clientCertificateHeader] : ["--ingest", core.ingestEndpoint]),
  ];
  return drive(core, args, context.signal);
};

const options = readOptions();
if (options === undefined) {
  process.stderr.write(usage);
  process.exitCode = 2;
} else {
  process.exitCode = await withLab({ name: "fleet-drive" }, (context, cleanup) => run(options, context, cleanup)).catch(
    (error: unknown) => {
      process.stderr.write(`fleet-drive: ${describeError(error)}\n`);
      return 1;
    },
  );
}
