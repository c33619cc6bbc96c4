import { readFile } from "node:fs/promises";
import type { IncomingMessage } from "node:http";
import { fileURLToPath } from "node:url";
import { followVariables } from "#functions/node/database/follow-variables.ts";
import { listenHttp } from "#functions/node/http/http-listener.ts";
import { reloadChangedFiles } from "#functions/node/reload-files.ts";
import { listenFor, runConfigured, stopSignal } from "#functions/node/run-configured.ts";
import { connectDatabase } from "#functions/store/database/database.ts";
import { systemClock } from "#kit/clock.ts";
import { systemEntropy } from "#kit/entropy.ts";
import type { Log } from "#kit/log.ts";
import { createTracer } from "#kit/tracing/create-tracer.ts";
import packageJson from "#package.json" with { type: "json" };
import { createWebApp } from "./app.ts";
import { parseWebConfig, type WebConfig } from "./config.ts";
import { limitOutgoingRequests } from "./limit-outgoing-requests.ts";
import type { WebContext } from "./request.ts";
import type { WebUi } from "./web.ts";

const shutdownGraceMs = 10_000;
/** Only sign-ins query the database, with single statements, so a pooler makes no difference. */
const databaseConnectionsMax = 4;

const usage = `svc-web: the operator UI of the collector fleet

  svc-web                serve, configured by the environment (docs/configuration.md)
  svc-web check-config   validate the environment and exit: 0, or 78 with every fault by variable
`;

/** Where the built UI is: `dist/ui`, relative to the bundled program or to this file. */
const uiFolders = [new URL("../ui/", import.meta.url), new URL("../../dist/ui/", import.meta.url)];

/** Returns the first folder with a build; undefined, with a warning, if there is none. */
const findUi = async (log: Log): Promise<WebUi | undefined> => {
  for (const url of uiFolders) {
    const folder = fileURLToPath(url);
    const manifest = await readFile(`${folder}/manifest.json`, "utf8").catch(() => undefined);
    if (manifest !== undefined) return { folder, manifest: JSON.parse(manifest) };
  }
  log.warn({}, "the UI is not built: only the sign-in page and the API are served");
  return undefined;
};

/** Returns the remote address without the zone of a link-local IPv6 address, which only this machine knows. */
const remoteAddressOf = (c: WebContext) => {
  const { incoming } = c.env as { incoming: IncomingMessage };
  return (incoming.socket.remoteAddress ?? "").replace(/%.*$/, "");
};

const load = (config: WebConfig, log: Log) => followVariables(config, log);

/** Serves until `shutdownDelaySeconds` after SIGTERM or SIGINT, unready meanwhile. Then waits for running requests, and closes the database last. */
const serve = async (
  config: WebConfig,
  log: Log,
  { servers, followed }: Awaited<ReturnType<typeof load>>,
): Promise<void> => {
  const stop = new AbortController();
  const database = connectDatabase({
    ...servers.requests,
    connectionsMax: databaseConnectionsMax,
    applicationName: "svc-web",
    pooled: true,
    writes: false,
  });
  try {
    limitOutgoingRequests(config.apiUrl);
    const ui = await findUi(log);
    const tracer = await createTracer(config.traces, {
      name: "svc-web",
      version: packageJson.version,
    });
    const web = {
      config,
      db: database.db,
      clock: systemClock,
      entropy: systemEntropy,
      log,
      fetch,
      tracer,
      ui,
    };
    void reloadChangedFiles({ clock: systemClock, log }, followed, stop.signal);
    let isStopping = false;
    const app = createWebApp(web, { remoteAddressOf, isStopping: () => isStopping });
    const onFailure = (err: unknown) =>
      log.error({ err }, "a request failed outside of its handler");
    const http = await listenFor("PORT", () =>
      listenHttp(app, { port: config.port, host: config.httpHost, onFailure }),
    );
    // Before "ready" is logged, so that a signal after it stops the process gracefully.
    const stopped = stopSignal();
    log.info({ port: http.port, origin: config.origin }, "ready");
    log.info({ signal: await stopped }, "stopping");
    isStopping = true;
    await systemClock.sleep(config.shutdownDelaySeconds * 1000);
    await http.close(shutdownGraceMs);
    await tracer.close();
  } finally {
    stop.abort();
    await database.close();
  }
  log.info({}, "stopped");
};

/** Runs one command and returns its exit code. Without a command it serves until SIGTERM or SIGINT. */
export const runWeb = (command: string | undefined): Promise<number> =>
  runConfigured({ usage, parse: parseWebConfig, load, serve }, { command, env: process.env });
