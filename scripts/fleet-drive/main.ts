/**
 * `bun run fleet-drive [-- --hosts N] [--seed N] [--duration 20s] [--interval 1s] [--concurrency N] [--many]`: starts a core on a
 * durable PostgreSQL of its own and runs `svc-fleet-sim --drive` against it over loopback: enrollment at the API, everything else over
 * mutual TLS at the ingest listener. `--many`, for many thousands of hosts: no host forwards, and the certificates are in the header.
 * stdout ends with the drive's report, one JSON object; exit code 0 only if the live health report is the predicted one, 2 for usage.
 */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { runFleetSim } from "../fleet-sim/run-fleet-sim.ts";
import { errorMessages, type LabContext, withLab } from "../lab/context.ts";
import { clientCertificateHeader } from "../lab/core-process.ts";
import { startLabCore } from "../lab/lab-core.ts";
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

/** Half of a bridge token's lifetime; a drive may take longer. */
const tokenEveryMs = 30 * 60_000;

type Options = NonNullable<ReturnType<typeof readOptions>>;

const drive = async (options: Options, context: LabContext, cleanup: AsyncDisposableStack): Promise<number> => {
  const core = await startLabCore({ env: { SVC_HEARTBEAT_INTERVAL: options.interval } }, context, cleanup);
  const tokenFile = join(context.dir, "operator-token");
  const writeToken = async () =>
    writeFile(tokenFile, await bridgeTokenOf(core.authTokenSecret, "admin"), { mode: 0o600 });
  await writeToken();
  const timer = setInterval(() => void writeToken().catch(() => undefined), tokenEveryMs);
  cleanup.defer(() => clearInterval(timer));
  const { hosts, seed, duration, concurrency, many } = options;
  const args = [
    ...["--scenario", "fleet-100", "--seed", seed, "--hosts", hosts, "--duration", duration],
    ...["--concurrency", concurrency, "--drive", core.httpUrl, "--operator-token-file", tokenFile],
    ...["--ca-bundle", core.pki.serverCaFile],
    ...(many ? ["--client-certificate-header", clientCertificateHeader] : ["--ingest", core.ingestEndpoint]),
  ];
  return runFleetSim(args, { stdout: process.stdout, stderr: process.stderr, signal: context.signal });
};

const options = readOptions();
if (options === undefined) {
  process.stderr.write(usage);
  process.exitCode = 2;
} else
  process.exitCode = await withLab({ name: "fleet-drive" }, (context, cleanup) =>
    drive(options, context, cleanup),
  ).catch((error: unknown) => {
    process.stderr.write(`fleet-drive: ${errorMessages(error)}\n`);
    return 1;
  });
