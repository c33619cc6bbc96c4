import { hostname } from "node:os";
import { setFlagsFromString } from "node:v8";
import { systemClock } from "#kit/clock.ts";
import { systemEntropy } from "#kit/entropy.ts";
import type { Log } from "#kit/log.ts";
import { runJobs } from "#kit/run-every.ts";
import { createTracer } from "#kit/tracing/create-tracer.ts";
import { withTimeout } from "#kit/with-timeout.ts";
import packageJson from "#package.json" with { type: "json" };
import { createApp } from "./app.ts";
import { databaseCommands, serverUsage } from "./commands.ts";
import { type CoreConfig, parseCommandConfig, parseCoreConfig } from "./config/core-config.ts";
import type { Core } from "./core.ts";
import { createRestoreCheck } from "./domain/directory/restored.ts";
import { sendMsMax } from "./domain/watch/deliver.ts";
import { coreJobsOf, statementJobOf } from "./jobs/core-jobs.ts";
import { createDatabaseClock, followDatabase } from "./jobs/database-clock.ts";
import { createSessionKeeper } from "./jobs/keep-core-session.ts";
import { createDatabaseProbe } from "./jobs/probe-database.ts";
import { runDirectorySync } from "./jobs/run-directory-sync.ts";
import { type LoadedCore, loadCoreFiles } from "./load-core-files.ts";
import { openCoreDatabases } from "./node/database/core-databases.ts";
import type { NamedServers } from "./node/database/database-servers.ts";
import { prepareDatabase } from "./node/database/prepare-database.ts";
import { reloadChangedFiles } from "./node/follow-files.ts";
import { httpPeerOf, listenHttp } from "./node/http/http-listener.ts";
import { zstdCodec } from "./node/ingest/zstd-codec.ts";
import { createMetrics, type Metrics } from "./node/metrics.ts";
import { readKeyFile, readTrustedFile } from "./node/read-key-file.ts";
import { readMigrations } from "./node/read-migrations.ts";
import { listenFor, runConfigured, stopSignal } from "./node/run-configured.ts";
import { createSendRequest } from "./node/send-request.ts";
import { checksOf } from "./ops/core-checks.ts";
import { figuresOf } from "./ops/figures.ts";
import { opsRoutesOf } from "./ops/index.ts";
import { coreReportIntervalMs, createCoreReporter } from "./ops/report-core.ts";
import { createClientCertificateReader } from "./signer/certificate.ts";
import { startChat } from "./start-chat.ts";
import { type RunningIngest, startIngest } from "./start-ingest.ts";
import { countAuditEvents } from "./store/audit/audit.ts";
import { createHourColumns } from "./store/completeness/hour-columns.ts";
import { pendingMigrations } from "./store/database/migrate.ts";
import { createDirectoryLock } from "./store/directory/lock.ts";
import { createFleetColumns } from "./store/fleet/columns/fleet-columns.ts";
import { sessionIntervalMs } from "./store/fleet/core-sessions.ts";
import { createPastColumns } from "./store/fleet/past/past-columns.ts";
import { routesOf } from "./v1/index.ts";

/** Requests, frames and jobs in flight have this long to finish, then lose their connections: core exits within ten seconds of the delay. */
const shutdownGraceMs = 7_000;
const closeSeconds = 2;
const probeIntervalMs = 1000;
/** From one statement of heartbeats to the next, so that more hosts share each. */
const heartbeatPauseMs = 10;
const viewMs = 1000;

/** Serves until SIGTERM or SIGINT, then finishes requests and jobs in flight and closes the database last. */
const serve = async (
  config: CoreConfig,
  log: Log,
  { cryptography, files, license, servers, receiptSigner, logSigner }: LoadedCore,
): Promise<void> => {
  // Streams hold memory outside the heap. V8 would collect the whole heap at each 64 MB of it, every two seconds while a fleet connects.
  setFlagsFromString("--external-memory-accounted-in-global-limit");
  await prepareDatabase(servers, { tenantId: config.tenantId, clock: systemClock, log });
  const tracer = await createTracer(config.traces, {
    name: "svc-server",
    version: packageJson.version,
  });
  const databases = openCoreDatabases(servers, tracer);
  const { requests: database, heartbeats, reports, jobs: jobsDatabase } = databases;
  const stop = new AbortController();
  let isStopping = false;
  let isListening = false;
  // Until it is known.
  let hasOlderCore = true;
  let runningJobs: Promise<unknown> = Promise.resolve();
  try {
    const metrics = createMetrics(log);
    metrics.gauge(
      "core_database_connections",
      "Connections of the pools that are open",
      databases.connections.count,
    );
    metrics.gauge(
      "core_database_connections_max",
      "Connections that the pools open at most",
      () => databases.connections.max,
    );
    const databaseClock = createDatabaseClock(database.db, systemClock);
    await databaseClock.measure();
    // Until something is audited, through whichever core: the next answer has what an operator wrote.
    const viewsShared = {
      ms: viewMs,
      clock: systemClock,
      version: () => countAuditEvents(reports.db),
    };
    const fleetColumns = createFleetColumns({
      db: reports.db,
      clock: systemClock,
      sharedFor: viewsShared,
      stopping: stop.signal,
      onFailure: (err) => log.warn({ err }, "hosts could not be kept in memory"),
    });
    const base = {
      config,
      db: database.db,
      heartbeats: {
        db: heartbeats.db,
        pause: () => systemClock.sleep(heartbeatPauseMs),
        hasOlderCore: () => hasOlderCore,
        core: hostname(),
      },
      reports: reports.db,
      viewsShared,
      fleetColumns,
      pastColumns: createPastColumns({
        db: reports.db,
        clock: systemClock,
        codec: zstdCodec,
        present: fleetColumns,
        stopping: stop.signal,
      }),
      hourColumns: createHourColumns({ db: reports.db, clock: systemClock, stopping: stop.signal }),
      clock: followDatabase(systemClock, databaseClock),
      entropy: systemEntropy,
      log,
      observe: metrics.observe,
      tracer,
      cryptography,
      codec: zstdCodec,
      signer: files.signing?.signer ?? null,
      clientCertificates:
        files.signing?.clientCertificates ??
        createClientCertificateReader({ authorities: [], cryptography }),
      watches: () => (files.watches ? files.watches.current() : config.watches),
    };
    const chat =
      config.chat &&
      receiptSigner &&
      (await startChat(base, {
        config: config.chat,
        signer: receiptSigner,
        jobsDatabase,
        locate: servers.sessions.servers.locate,
        stopping: stop.signal,
      }));
    const core: Core = { ...base, chat: chat?.chat ?? null };
    const jobsCore = { ...core, db: jobsDatabase.db };
    let ingest: RunningIngest | null = null;
    const findRestore = createRestoreCheck(jobsCore);
    const checkRestore = async (): Promise<void> => {
      if ((await findRestore()) !== null) ingest?.reopenStreams();
    };
    const keepSession = createSessionKeeper(
      jobsCore,
      () => isListening && !isStopping,
      (isPresent) => {
        hasOlderCore = isPresent;
      },
    );
    // Before anything serves: a restored backup grants access that has been revoked since.
    await checkRestore();
    const schedule = { clock: systemClock, signal: stop.signal, log };
    runningJobs = Promise.all([
      runJobs(schedule, [
        ...coreJobsOf(jobsCore, {
          send: createSendRequest({ clock: systemClock, msMax: sendMsMax }),
        }),
        ...(config.ingest ? [statementJobOf({ ...jobsCore, codec: zstdCodec, logSigner })] : []),
        ["core session", sessionIntervalMs, keepSession],
        [
          "database probe",
          probeIntervalMs,
          createDatabaseProbe(core, { clock: databaseClock, checkRestore }),
        ],
      ]),
      reloadChangedFiles(core, files, stop.signal),
    ]);
    const routes = routesOf(core);
    if (config.ingest && files.tls)
      ingest = await startIngest(core, {
        config: config.ingest,
        tls: files.tls,
        routes,
        databases,
        jobsCore,
        databaseClock,
        sessions: servers.sessions,
        metrics,
        signal: stop.signal,
      });
    const checks = checksOf(core, {
      pendingMigrations: async () => pendingMigrations(database.sql, await readMigrations()),
      clock: databaseClock,
      ingest,
      files,
      license,
      isStopping: () => isStopping,
    });
    const report = createCoreReporter(jobsCore, {
      machine: hostname(),
      version: packageJson.version,
      checks,
      certificates: files.certificates,
      streams: () => ingest?.openStreams() ?? null,
      clockAheadMs: databaseClock.aheadMs,
      isStopping: () => isStopping,
    });
    for (const figure of figuresOf(core, { checks, certificates: files.certificates }))
      metrics.figure(figure);
    const ops = opsRoutesOf({ config, clock: core.clock, log, metrics: metrics.render, checks });
    const app = createApp(core, { peerOf: httpPeerOf, routes: [...ops, ...routes] });
    const onFailure = (err: unknown) => {
      log.error({ err }, "a request failed outside of its handler");
      core.observe.httpRequest({ route: "unmatched", method: "", status: 500 }, 0);
    };
    const http = await listenFor("PORT", () =>
      listenHttp(app, { port: config.port, host: config.httpHost, onFailure }),
    );
    isListening = true;
    const reporting = runJobs(schedule, [["core report", coreReportIntervalMs, report]]);
    // Before "ready", so that no signal that follows it ends the process at once.
    const stopped = stopSignal();
    log.info({ port: http.port, ingest_port: ingest?.port ?? null }, "ready");
    // Last, so that serving never waits for the directory.
    const directory = startDirectorySync(jobsCore, {
      metrics,
      sessions: servers.sessions,
      signal: stop.signal,
    });
    log.info({ signal: await stopped }, "stopping");
    isStopping = true;
    await Promise.all([
      systemClock.sleep(config.shutdownDelaySeconds * 1000),
      // So that /system does not take it for one that ended by itself.
      withTimeout(closeSeconds * 1000, systemClock, report()).catch(() => undefined),
    ]);
    stop.abort();
    const timer = setTimeout(() => void databases.close(0), shutdownGraceMs);
    await Promise.all([
      http.close(shutdownGraceMs),
      ingest?.close(shutdownGraceMs),
      runningJobs,
      reporting,
      directory,
      chat?.close(),
    ]);
    clearTimeout(timer);
  } finally {
    stop.abort();
    // After a failed start the jobs' first statements run: postgres.js does not end a pool whose statements still wait for a connection.
    await withTimeout(closeSeconds * 1000, systemClock, runningJobs).catch(() => undefined);
    await databases.close(closeSeconds);
    await tracer.close();
  }
  log.info({}, "stopped");
};

const startDirectorySync = (
  core: Core,
  { metrics, sessions, signal }: { metrics: Metrics; sessions: NamedServers; signal: AbortSignal },
): Promise<void> =>
  runDirectorySync(
    {
      core,
      readKeyFile: (path) => readKeyFile(path).toString("utf8"),
      readTrustedFile: (path) => readTrustedFile(path).toString("utf8"),
      exclusively: createDirectoryLock({ ...sessions, clock: core.clock }),
      observe: metrics.observeDirectory,
    },
    signal,
  );

/** Runs one command line and returns its exit code. Without a command, serves until SIGTERM or SIGINT. */
export const runServer = (
  command: string | undefined,
  args: readonly string[],
): Promise<number> => {
  const commands = databaseCommands(args);
  const parse = Object.hasOwn(commands, command ?? "") ? parseCommandConfig : parseCoreConfig;
  return runConfigured(
    { usage: serverUsage, parse, load: loadCoreFiles, serve, commands },
    { command, env: process.env },
  );
};
