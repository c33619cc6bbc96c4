import { readFileSync } from "node:fs";
import { createApp } from "./app.ts";
import { type CoreConfig, parseCoreConfig } from "./config.ts";
import type { Core, Log } from "./core.ts";
import { systemClock } from "./kit/clock.ts";
import { systemEntropy } from "./kit/entropy.ts";
import { ConfigError } from "./kit/env.ts";
import { createLog } from "./node/create-log.ts";
import { openDatabaseSocket } from "./node/database-socket.ts";
import { httpPeerOf, listenHttp } from "./node/http-listener.ts";
import { loadSigner } from "./node/load-signer.ts";
import { createNodeCryptography } from "./node/node-cryptography.ts";
import { prepareDatabase } from "./node/prepare-database.ts";
import { createClientCertificateReader } from "./signer/certificate.ts";
import { connectDatabase } from "./store/database.ts";

/** EX_CONFIG of sysexits(3). */
const exitConfig = 78;
const shutdownGraceMs = 10_000;

const usage = `svc-server: core of the collector fleet

  svc-server                serve, configured by the environment (docs/operate.md)
  svc-server check-config   check the environment and exit: 0, or 78 with every fault by name
`;

/** Serves until SIGTERM or SIGINT, then lets running requests end. */
const serve = async (config: CoreConfig, log: Log): Promise<void> => {
  const cryptography = createNodeCryptography();
  const signing = config.signer && (await loadSigner(config.signer, cryptography));
  const database = connectDatabase({ url: config.databaseUrl.reveal(), openSocket: openDatabaseSocket });
  try {
    await prepareDatabase(database, { tenantId: config.tenantId, clock: systemClock, log });
    const core: Core = {
      config,
      db: database.db,
      clock: systemClock,
      entropy: systemEntropy,
      log,
      observe: { httpRequest: () => undefined, enroll: () => undefined, heartbeat: () => undefined },
      cryptography,
      signer: signing?.signer ?? null,
      clientCertificates: createClientCertificateReader({ authorities: signing?.authorities ?? [], cryptography }),
    };
    const http = await listenHttp(createApp(core, { peerOf: httpPeerOf }), { port: config.port });
    log.info({ port: http.port }, "ready: HTTP");
    log.info({ signal: await stopSignal() }, "stopping");
    await http.close(shutdownGraceMs);
  } finally {
    await database.close();
  }
  log.info({}, "stopped");
};

const stopSignal = (): Promise<string> =>
  new Promise((resolve) => {
    for (const name of ["SIGTERM", "SIGINT"] as const) process.once(name, () => resolve(name));
  });

const main = async (command: string | undefined): Promise<number> => {
  if (command !== undefined && command !== "check-config") {
    process.stderr.write(usage);
    return command === "--help" ? 0 : 2;
  }
  try {
    const { config, warnings } = parseCoreConfig(process.env, (path) => readFileSync(path, "utf8"));
    if (command === "check-config") {
      for (const warning of warnings) process.stderr.write(`warning: ${warning}\n`);
      process.stdout.write("configuration is valid\n");
      return 0;
    }
    const log = createLog(config.logLevel);
    for (const warning of warnings) log.warn({}, warning);
    await serve(config, log);
    return 0;
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    process.stderr.write(`${error.message}\n`);
    return exitConfig;
  }
};

process.exitCode = await main(process.argv[2]);
