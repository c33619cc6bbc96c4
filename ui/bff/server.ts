import { readdir, readFile } from "node:fs/promises";
import type { IncomingMessage } from "node:http";
import { join, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { openDatabaseSocket } from "../../functions/node/database-socket.ts";
import { listenHttp } from "../../functions/node/http-listener.ts";
import { listenFor } from "../../functions/node/listen-fault.ts";
import { runConfigured, stopSignal } from "../../functions/node/run-configured.ts";
import { connectDatabase } from "../../functions/store/database.ts";
import { systemClock } from "../../kit/clock.ts";
import { systemEntropy } from "../../kit/entropy.ts";
import type { Log } from "../../kit/log.ts";
import { createApp } from "./app.ts";
import { createAssets } from "./assets.ts";
import { parseWebConfig, type WebConfig } from "./config.ts";
import type { WebContext } from "./request.ts";

const shutdownGraceMs = 10_000;
/** Sign-ins alone ask the database. */
const databaseConnectionsMax = 4;
const statementTimeoutMs = 5000;

const usage = `svc-web: the operator interface of the collector fleet

  svc-web                serve, configured by the environment (docs/deploy-web.md)
  svc-web check-config   check the environment and exit: 0, or 78 with every fault by name
`;

/** The built user interface: `dist/ui`, beside the bundled program, or from the source below the repository's root. */
const assetFolders = [new URL("../ui/", import.meta.url), new URL("../../dist/ui/", import.meta.url)];

/** Every file below a folder with its path there; none where the folder is missing. */
const readFolder = async (folder: string) => {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => []);
  return Promise.all(
    entries
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name))
      .map(async (file) => ({
        path: relative(folder, file).split(sep).join("/"),
        bytes: new Uint8Array(await readFile(file)),
      })),
  );
};

/** The first of the folders that holds an application. */
const readAssets = async (log: Log) => {
  for (const folder of assetFolders) {
    const assets = await createAssets(await readFolder(fileURLToPath(folder)));
    if (assets.index !== undefined) return assets;
  }
  log.warn({}, "the user interface is not built: only the sign-in page and the API are served");
  return createAssets([]);
};

/** Without the zone of a link-local IPv6 address, which is this machine's own business. */
const remoteAddressOf = (c: WebContext): string => {
  const { incoming } = c.env as { incoming: IncomingMessage };
  return (incoming.socket.remoteAddress ?? "").replace(/%.*$/, "");
};

/** Serves until SIGTERM or SIGINT, then lets what is running end: the listener first, the database last. */
const serve = async (config: WebConfig, log: Log): Promise<void> => {
  const database = connectDatabase({
    url: config.databaseUrl.reveal(),
    connectionsMax: databaseConnectionsMax,
    applicationName: "svc-web",
    statementTimeoutMs,
    openSocket: openDatabaseSocket,
  });
  try {
    const assets = await readAssets(log);
    const clock = systemClock;
    const web = { config, db: database.db, clock, entropy: systemEntropy, log, fetch, assets };
    const app = createApp(web, { remoteAddressOf });
    const http = await listenFor("PORT", () => listenHttp(app, { port: config.port, host: config.httpHost }));
    log.info({ port: http.port, origin: config.origin }, "ready");
    log.info({ signal: await stopSignal() }, "stopping");
    await http.close(shutdownGraceMs);
  } finally {
    await database.close();
  }
  log.info({}, "stopped");
};

/** Runs one command line and gives its exit code; without a command it serves until SIGTERM or SIGINT. */
export const runWeb = (command: string | undefined): Promise<number> =>
  runConfigured({ usage, parse: parseWebConfig, serve }, { command, env: process.env });
