import { hostname } from "node:os";
import { setFlagsFromString } from "node:v8";
import { systemClock, withTimeout } from "#kit/clock.ts";
import { systemEntropy } from "#kit/entropy.ts";
import type { Log } from "#kit/log.ts";
import { type Job, runJobs } from "#kit/run-every.ts";
import { createTracer } from "#kit/tracing/create-tracer.ts";
import packageJson from "#package.json" with { type: "json" };
import { createApp } from "./app.ts";
import { assembleCore } from "./assemble-core.ts";
import { databaseCommands, serverUsage } from "./commands.ts";
import { type CoreConfig, parseCommandConfig, parseCoreConfig } from "./config/core-config.ts";
import type { Core } from "./core.ts";
import { createLogSigner, type LogSigner } from "./domain/completeness/write-statement.ts";
import { createRestoreCheck } from "./domain/directory/restored.ts";
import type { LicenseSource } from "./domain/licensing/license.ts";
import { createBundlePublisher } from "./domain/system/publish-ca-bundle.ts";
import { createStreamBalancer } from "./domain/system/stream-balancer.ts";
import { sendMsMax } from "./domain/watch/deliver.ts";
import { coreJobsOf, statementJobOf } from "./jobs/core-jobs.ts";
import { createDatabaseClock, followDatabase } from "./jobs/database-clock.ts";
import { createSessionKeeper } from "./jobs/keep-core-session.ts";
import { createDatabaseProbe } from "./jobs/probe-database.ts";
import { runDirectorySync } from "./jobs/run-directory-sync.ts";
import {
  loadTogether,
  readKeyFile,
  readTrustedFile,
  withConfigError,
} from "./node/config-files.ts";
import { openCoreDatabases } from "./node/database/core-databases.ts";
import { followVariables } from "./node/database/follow-variables.ts";
import { prepareDatabase } from "./node/database/prepare-database.ts";
import { followFiles } from "./node/follow-files.ts";
import { httpPeerOf, listenHttp } from "./node/http/http-listener.ts";
import { createNodeObjectReader } from "./node/ingest/read-objects.ts";
import { zstdCodec } from "./node/ingest/zstd-codec.ts";
import { createMetrics } from "./node/metrics.ts";
import { createNodeCryptography, createNodeSigningKey } from "./node/node-cryptography.ts";
import { createCredentialReader } from "./node/own-credentials.ts";
import { readMigrations } from "./node/read-migrations.ts";
import { reloadChangedFiles } from "./node/reload-files.ts";
import { listenFor, runConfigured, stopSignal } from "./node/run-configured.ts";
import { createSendRequest } from "./node/send-request.ts";
import { checksOf } from "./ops/checks.ts";
import { figuresOf } from "./ops/figures.ts";
import { opsRoutesOf } from "./ops/index.ts";
import { coreReportIntervalMs, createCoreReporter } from "./ops/report-core.ts";
import { loadReceiptSigner, startChat } from "./start-chat.ts";
import { type RunningIngest, startIngest } from "./start-ingest.ts";
import { countAuditEvents } from "./store/audit/audit.ts";
import { createHourColumns } from "./store/completeness/hour-columns.ts";
import { pendingMigrations } from "./store/database/migrate.ts";
import { createDirectoryLock } from "./store/directory/lock.ts";
import { createFleetColumns } from "./store/fleet/columns/fleet-columns.ts";
import { sessionIntervalMs } from "./store/fleet/core-sessions.ts";
import { createPastColumns } from "./store/fleet/past/past-columns.ts";
import { findCoreReports } from "./store/system/system.ts";
import { routesOf } from "./v1/index.ts";

/**
 * Requests, frames and jobs under way have this long to finish, then lose their connections: core exits within ten seconds of the delay.
 */
const shutdownGraceMs = 7_000;
const closeSeconds = 2;
const probeIntervalMs = 1000;
/** Pause between statements of heartbeats, so that more hosts share each. */
const heartbeatPauseMs = 10;
const viewMs = 1000;
const publishIntervalMs = 5000;

/** Serves until SIGTERM or SIGINT, then finishes requests and jobs in flight and closes the database last. */
const serve = async (config: CoreConfig, log: Log, loaded: LoadedCore) => {
  // Streams hold memory outside the heap. V8 would collect the whole heap at each 64 MB of it, every two seconds while a fleet connects.
  setFlagsFromString("--external-memory-accounted-in-global-limit");
  const stop = new AbortController();
  const { signal } = stop;
  const serving = await openServing(config, log, loaded, signal);
  const { databases, tracer } = serving;
  let runningJobs: Promise<unknown> = Promise.resolve();
  try {
    await serving.databaseClock.measure();
    const base = createCore(serving);
    const chat = await startConfiguredChat(base, serving);
    const core = chat ? { ...base, chat: chat.chat } : base;
    const jobsCore = { ...core, db: databases.jobs.db };
    const findRestore = createRestoreCheck(jobsCore);
    const checkRestore = async () => {
      if ((await findRestore()) !== null) serving.ingest?.reopenStreams();
    };
    // Before anything serves: a restored backup grants access that has been revoked since.
    await checkRestore();
    const schedule = { clock: systemClock, signal, log };
    runningJobs = Promise.all([
      runJobs(schedule, jobsOf(jobsCore, serving, checkRestore)),
      reloadChangedFiles(core, loaded.followed, signal),
    ]);
    const { http, reporter } = await listen(core, jobsCore, serving);
    const { report } = reporter;
    serving.isListening = true;
    const reporting = runJobs(schedule, [
      ["core report", coreReportIntervalMs, report],
      ["balance streams", coreReportIntervalMs, streamBalancerOf(jobsCore, serving, reporter.id)],
    ]);
    // Before "ready", so that a signal after it never ends the process abruptly.
    const stopped = stopSignal();
    log.info({ port: http.port, ingest_port: serving.ingest?.port ?? null }, "ready");
    // Last, so that serving never waits for the directory.
    const directory = startDirectorySync(jobsCore, serving);
    log.info({ signal: await stopped }, "stopping");
    serving.isStopping = true;
    await Promise.all([
      systemClock.sleep(config.shutdownDelaySeconds * 1000),
      // So that /system does not report this core as crashed.
      withTimeout(closeSeconds * 1000, systemClock, report()).catch(() => undefined),
    ]);
    stop.abort();
    const timer = setTimeout(() => void databases.close(0), shutdownGraceMs);
    const parts = [http, serving.ingest, chat].map((part) => part?.close(shutdownGraceMs));
    await Promise.all([...parts, runningJobs, reporting, directory]);
    clearTimeout(timer);
  } finally {
    stop.abort();
    // After a failed start, waits for the jobs' first statements: postgres.js does not end a pool whose statements still wait for a
    // connection.
    await withTimeout(closeSeconds * 1000, systemClock, runningJobs).catch(() => undefined);
    await databases.close(closeSeconds);
    await tracer.close();
  }
  log.info({}, "stopped");
};

type Serving = Awaited<ReturnType<typeof openServing>>;

/** Opens what the parts of core share. */
const openServing = async (
  config: CoreConfig,
  log: Log,
  loaded: LoadedCore,
  signal: AbortSignal,
) => {
  const { servers } = loaded.variables;
  await prepareDatabase(servers, { tenantId: config.tenantId, clock: systemClock, log });
  const { version } = packageJson;
  const tracer = await createTracer(config.traces, { name: "svc-server", version });
  const databases = openCoreDatabases(servers, tracer);
  const databaseClock = createDatabaseClock(databases.requests.db, systemClock);
  const metrics = createMetrics(log);
  metrics.gauge("databaseConnections", databases.connections.count);
  metrics.gauge("databaseConnectionsMax", () => databases.connections.max);
  const clock = followDatabase(systemClock, databaseClock);
  const publishing = { db: databases.jobs.db, clock, entropy: systemEntropy, log };
  return {
    config,
    log,
    loaded,
    databases,
    databaseClock,
    clock,
    bundles: loaded.files.bundles.map((file) => ({
      ...file,
      ...createBundlePublisher(publishing, file),
    })),
    metrics,
    tracer,
    signal,
    isListening: false,
    isStopping: false,
    // Until it is known.
    hasOlderCore: true,
    ingest: null as RunningIngest | null,
  };
};

/** Creates core without chat. */
const createCore = (serving: Serving): Core => {
  const { config, log, loaded, databases, metrics, tracer, signal: stopping } = serving;
  const { signing } = loaded.files;
  const { db } = databases.reports;
  // Until something is audited, through whichever core: the next answer has what an operator wrote.
  const viewsShared = { ms: viewMs, clock: systemClock, version: () => countAuditEvents(db) };
  const fleetColumns = createFleetColumns({
    db,
    clock: systemClock,
    sharedFor: viewsShared,
    stopping,
    onFailure: (err) => log.warn({ err }, "hosts could not be kept in memory"),
  });
  return assembleCore({
    config,
    db: databases.requests.db,
    objects: createNodeObjectReader(databases.requests.db, config.storeKeys),
    heartbeats: {
      db: databases.heartbeats.db,
      pause: () => systemClock.sleep(heartbeatPauseMs),
      hasOlderCore: () => serving.hasOlderCore,
      core: hostname(),
    },
    reports: db,
    viewsShared,
    fleetColumns,
    pastColumns: createPastColumns({
      db,
      clock: systemClock,
      codec: zstdCodec,
      present: fleetColumns,
      stopping,
    }),
    hourColumns: createHourColumns({ db, clock: systemClock, stopping }),
    clock: serving.clock,
    entropy: systemEntropy,
    log,
    observe: metrics.observe,
    tracer,
    cryptography: loaded.cryptography,
    ...(signing && { signer: signing.signer, clientCertificates: signing.clientCertificates }),
  });
};

const startConfiguredChat = async (
  core: Core,
  { config, loaded: { receiptSigner, variables }, databases, signal }: Serving,
) =>
  config.chat &&
  receiptSigner &&
  startChat(core, {
    config: config.chat,
    signer: receiptSigner,
    jobsDatabase: databases.jobs,
    locate: variables.servers.sessions.servers.locate,
    stopping: signal,
  });

const jobsOf = (core: Core, serving: Serving, checkRestore: () => Promise<void>): Job[] => {
  const { config, loaded, databaseClock: clock } = serving;
  const { logSigner } = loaded;
  const keepSession = createSessionKeeper(
    core,
    () => serving.isListening && !serving.isStopping,
    (isPresent) => {
      serving.hasOlderCore = isPresent;
    },
  );
  return [
    ...coreJobsOf(core, { send: createSendRequest({ clock: systemClock, msMax: sendMsMax }) }),
    ...(config.ingest ? [statementJobOf({ ...core, logSigner })] : []),
    ...serving.bundles.map(
      ({ channel, publish }): Job => [`CA bundle of ${channel}`, publishIntervalMs, publish],
    ),
    ["core session", sessionIntervalMs, keepSession],
    ["database probe", probeIntervalMs, createDatabaseProbe(core, { clock, checkRestore })],
  ];
};

/** Listens for telemetry and requests; returns also what reports this core to the others. */
const listen = async (core: Core, jobsCore: Core, serving: Serving) => {
  const { config, log, databases, databaseClock, metrics, signal } = serving;
  const { files, license, variables } = serving.loaded;
  const routes = routesOf(core);
  if (config.ingest && files.tls)
    serving.ingest = await startIngest(core, {
      config: config.ingest,
      tls: files.tls,
      routes,
      databases,
      jobsCore,
      databaseClock,
      sessions: variables.servers.sessions,
      metrics,
      signal,
    });
  const isStopping = () => serving.isStopping;
  const checks = checksOf(core, {
    pendingMigrations: async () =>
      pendingMigrations(databases.requests.sql, await readMigrations()),
    clock: databaseClock,
    ingest: serving.ingest,
    files,
    followed: [...variables.followed, ...serving.bundles],
    license,
    isStopping,
  });
  const credentials = createCredentialReader(config, serving.loaded);
  const reporter = createCoreReporter(jobsCore, {
    machine: hostname(),
    version: packageJson.version,
    checks,
    credentials,
    streams: () => serving.ingest?.openStreams() ?? null,
    clockAheadMs: databaseClock.aheadMs,
    isStopping,
  });
  for (const figure of figuresOf(core, { checks, credentials })) metrics.figure(figure);
  const ops = opsRoutesOf({ config, clock: core.clock, log, metrics: metrics.render, checks });
  const app = createApp(core, { peerOf: httpPeerOf, routes: [...ops, ...routes] });
  const onFailure = (err: unknown) => {
    log.error({ err }, "a request failed outside of its handler");
    core.observe.httpRequest("unmatched", "", "500", 0);
  };
  const http = await listenFor("PORT", () =>
    listenHttp(app, { port: config.port, host: config.httpHost, onFailure }),
  );
  return { http, reporter };
};

const streamBalancerOf = (core: Core, { ingest }: Serving, id: string) =>
  createStreamBalancer(
    { clock: core.clock, findReports: () => findCoreReports(core.db) },
    {
      id,
      count: () => ingest?.openStreams() ?? 0,
      release: (count) => ingest?.releaseStreams(count),
    },
  );

const startDirectorySync = (core: Core, { metrics, loaded: { variables }, signal }: Serving) =>
  runDirectorySync(
    {
      core,
      readKeyFile: (path) => readKeyFile(path).toString("utf8"),
      readTrustedFile: (path) => readTrustedFile(path).toString("utf8"),
      exclusively: createDirectoryLock({ ...variables.servers.sessions, clock: core.clock }),
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
    { usage: serverUsage, parse, load: loadCoreFiles, check: checkCoreStore, serve, commands },
    { command, env: process.env },
  );
};

/**
 * Loads the files that the configuration names, except those of the directory, which each sync reads again. Throws one `ConfigError` with
 * every fault. Uses no network.
 */
export const loadCoreFiles = async (config: CoreConfig, log: Log) => {
  const { chat } = config;
  const cryptography = createNodeCryptography();
  const tools = { cryptography, clock: systemClock, log };
  const loaded = await loadTogether({
    files: () => followFiles(config, tools),
    /** Null: the community edition. */
    license: () => readLicense(config),
    variables: () => followVariables(config, log),
    /** Null without chat. */
    receiptSigner: () => chat && loadReceiptSigner(chat),
    /** Null: the log of statements is not signed. */
    logSigner: () => readLogKey(config),
  });
  const { files, variables } = loaded;
  return { ...loaded, followed: [...files.all, ...variables.followed], cryptography };
};

const checkCoreStore = async ({ ingest }: CoreConfig) => {
  if (ingest === null || ingest.store.kind === "postgres") return [];
  const { retentionDays, store } = ingest;
  const { checkStore } = await import("./node/objects/open-store.ts");
  const shared = { retentionDays, clock: systemClock, entropy: systemEntropy };
  return checkStore(store.location, { ...shared, keys: store.keys });
};

type LoadedCore = Awaited<ReturnType<typeof loadCoreFiles>>;

const readLogKey = async ({ completeness }: CoreConfig): Promise<LogSigner | null> =>
  completeness &&
  withConfigError("SVC_COMPLETENESS_KEY_FILE", () =>
    createLogSigner(completeness.origin, createNodeSigningKey(readKeyFile(completeness.keyFile))),
  );

const readLicense = async ({ license }: CoreConfig): Promise<LicenseSource | null> =>
  license && {
    token: license.token,
    publicKeyPem: await withConfigError("SVC_LICENSE_PUBLIC_KEY_FILE", () =>
      readTrustedFile(license.publicKeyFile).toString("utf8"),
    ),
  };
