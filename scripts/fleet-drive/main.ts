/**
 * `bun run fleet-drive [-- --hosts N] [--seed N] [--duration 20s] [--interval 1s]`: a real core on a durable PostgreSQL of its own, and
 * `svc-fleet-sim --drive` against it over loopback: enrollment at the API, everything else over mutual TLS at the ingest listener.
 * stdout ends with the drive's report, one JSON object; exit code 0 only if the live health report is the predicted one.
 */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { startTarget } from "../attack-enroll/target.ts";
import { programPaths } from "../bundle/bundle-programs.ts";
import { bridgeTokenOf } from "../demo/operator-api.ts";

const readOptions = () =>
  parseArgs({
    options: {
      hosts: { type: "string", default: "100" },
      seed: { type: "string", default: "7" },
      duration: { type: "string", default: "20s" },
      interval: { type: "string", default: "1s" },
    },
  }).values;

const run = async ({ hosts, seed, duration, interval }: ReturnType<typeof readOptions>): Promise<number> => {
  const stop = new AbortController();
  for (const name of ["SIGINT", "SIGTERM"] as const)
    process.on(name, () => stop.abort(new Error(`stopped by ${name}`)));
  const dir = await mkdtemp(join(tmpdir(), "svc-fleet-drive-"));
  await using cleanup = new AsyncDisposableStack();
  cleanup.defer(() => rm(dir, { recursive: true, force: true }));
  const target = await startTarget({ dir, stop, env: { SVC_HEARTBEAT_INTERVAL: interval } }, cleanup);
  const operatorTokenFile = join(dir, "operator-token");
  await writeFile(operatorTokenFile, await bridgeTokenOf(target.authTokenSecret, "admin"), { mode: 0o600 });
  const { code, stdout, stderr } = await target.processes.run({
    args: [
      programPaths["svc-fleet-sim"],
      ...["--scenario", "fleet-100", "--seed", seed, "--hosts", hosts, "--duration", duration],
      ...["--drive", target.url, "--operator-token-file", operatorTokenFile],
      ...["--ingest", target.ingestEndpoint, "--ca-bundle", target.serverCaFile],
    ],
  });
  process.stderr.write(stderr);
  process.stdout.write(stdout);
  return code ?? 1;
};

process.exitCode = await run(readOptions());
