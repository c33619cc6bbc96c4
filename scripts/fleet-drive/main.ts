/**
 * `SVC_HEARTBEAT_INTERVAL=1s bun run fleet-drive [-- flags of svc-fleet-sim]`: starts a core on a durable PostgreSQL of its own and runs
 * `svc-fleet-sim --drive` against it over loopback: enrollment at the API, everything else over mutual TLS at the ingest listener. With
 * `--client-certificate-header X-Client-Cert`, for many thousands of hosts, no host forwards. stdout ends with the drive's report, one JSON
 * object; exit code 0 only if the live health report is the predicted one. An operator's token lives an hour.
 */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { runFleetSim } from "../fleet-sim/run-fleet-sim.ts";
import { withLab } from "../lab/context.ts";
import { startLabCore } from "../lab/lab-core.ts";
import { bridgeTokenOf } from "../lab/operator-api.ts";

const given = process.argv.slice(2).filter((arg) => arg !== "--");
const env = { SVC_HEARTBEAT_INTERVAL: process.env.SVC_HEARTBEAT_INTERVAL ?? "1s" };

process.exitCode = await withLab({ name: "fleet-drive" }, async (context, cleanup) => {
  const core = await startLabCore({ env }, context, cleanup);
  const token = join(context.dir, "operator-token");
  await writeFile(token, await bridgeTokenOf(core.authTokenSecret, "admin"), { mode: 0o600 });
  const target = [
    "--drive",
    core.httpUrl,
    "--operator-token-file",
    token,
    "--ca-bundle",
    core.pki.serverCaFile,
  ];
  const ingest = given.includes("--client-certificate-header")
    ? []
    : ["--ingest", core.ingestEndpoint];
  const args = ["--scenario", "fleet-100", ...target, ...ingest, ...given];
  return runFleetSim(args, {
    stdout: process.stdout,
    stderr: process.stderr,
    signal: context.signal,
  });
});
