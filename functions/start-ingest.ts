import { systemClock } from "#kit/clock.ts";
import { uuidv7 } from "#kit/entropy.ts";
import { parseBody } from "#kit/request-bodies.ts";
import { runJobs } from "#kit/run-every.ts";
import { budgetCheckSeconds } from "#proto/budget.ts";
import { createApp } from "./app.ts";
import type { IngestConfig } from "./config/core-config.ts";
import type { Core, WriteCore } from "./core.ts";
import { markUsed, recordAuthFailure } from "./domain/certificate/authenticate.ts";
import type { HeartbeatCore } from "./domain/fleet/heartbeat.ts";
import { createStatusRecorder } from "./domain/fleet/status.ts";
import { type AccountCore, createAccountAcceptor } from "./domain/telemetry/accept-account.ts";
import { createStreamRanges } from "./domain/telemetry/account-ranges.ts";
import { holdHosts } from "./domain/volume/hold-hosts.ts";
import type { Route } from "./http/route.ts";
import type { AccountRegister } from "./ingest/accounts.ts";
import type { CallerConnection } from "./ingest/admission.ts";
import {
  createIngest,
  type Ingest,
  type IngestNeeds,
  type IngestNotifications,
} from "./ingest/create-ingest.ts";
import { createFastPath } from "./ingest/fast-path/create-fast-path.ts";
import { createHeldHosts, holdBack } from "./ingest/held-hosts.ts";
import type { Sink } from "./ingest/sink.ts";
import type { StatusRegister } from "./ingest/statuses.ts";
import type { DatabaseClock } from "./jobs/database-clock.ts";
import { abandonedCopiesIntervalMs, createCopyCleanup } from "./jobs/end-abandoned-copies.ts";
import { maintainIngestPartitions } from "./jobs/maintain-ingest-partitions.ts";
import type { CoreDatabases } from "./node/database/core-databases.ts";
import type { NamedServers } from "./node/database/database-servers.ts";
import type { TlsMaterial } from "./node/follow-files.ts";
import { handshakesOf } from "./node/ingest/handshake-limits.ts";
import { ingestPeerOf, startIngestListener } from "./node/ingest/ingest-listener.ts";
import { openSink } from "./node/ingest/open-sink.ts";
import { zstdCodec } from "./node/ingest/zstd-codec.ts";
import type { Metrics } from "./node/metrics.ts";
import type { Reloaded } from "./node/reload-files.ts";
import { listenFor } from "./node/run-configured.ts";
import { Problem } from "./problems.ts";
import {
  areCertificatesActive,
  findCertificateStates,
  findEndedCertificates,
} from "./store/certificate/certificates.ts";
import {
  directiveChannel,
  readDirective,
  revocationChannel,
} from "./store/certificate/identities.ts";
import type { Database } from "./store/database/database.ts";
import type { Channels } from "./store/database/listen.ts";
import type { ManagementCore } from "./v1/collector/collector-guard.ts";
import { createReportAcceptor } from "./v1/collector/heartbeat.ts";

const partitionIntervalMs = 3_600_000;
const budgetIntervalMs = budgetCheckSeconds * 1_000;
/** Pause between shared queries or transactions, for lookups of certificates and for opening queues. */
const connectionPauseMs = 20;
/**
 * Pause between statements for first uses of certificates and for reports on streams. Each is once for a host, or rare, and alone costs
 * PostgreSQL four times as much as among twenty.
 */
const rarePauseMs = 250;
/** Pause between statements of statuses. */
const statusPauseMs = 1_000;

/** A serving ingest. */
export type RunningIngest = Awaited<ReturnType<typeof startIngest>>;

interface StartNeeds {
  config: IngestConfig;
  tls: Reloaded<TlsMaterial>;
  routes: readonly Route[];
  databases: CoreDatabases;
  /** Core with the connections of jobs. */
  jobsCore: Core;
  databaseClock: DatabaseClock;
  sessions: NamedServers;
  metrics: Metrics;
  signal: AbortSignal;
}

/** Starts the ingest listener with its jobs, after creating the partitions for the first frame. */
export const startIngest = async (core: Core, needs: StartNeeds) => {
  const { config, databases, jobsCore, sessions, metrics, signal } = needs;
  const { db, clock, entropy, log } = core;
  const keepPartitions = createPartitionKeeper(needs);
  await keepPartitions();
  const pauseOf = (ms: number) => () => clock.sleep(ms);
  const shared = { clock, log, pause: pauseOf(connectionPauseMs) };
  const { sink, payloadBytesMax } = await openSink(config, {
    ...shared,
    databaseUrl: sessions.servers.locate,
    hasStoredDigests: () => core.heartbeats.hasOlderCore?.() !== true,
    db,
    entropy,
    metrics,
  });
  const held = createHeldHosts(clock);
  const followBudgets = async () => {
    held.set(await holdHosts(jobsCore));
    return undefined;
  };
  const ingest = createIngest({
    ...shared,
    entropy,
    pauseUses: pauseOf(rarePauseMs),
    config: { ...config, payloadBytesMax },
    hostIdBytesMax: core.config.hostIdBytesMax,
    sink: holdBack(sink, held),
    codec: zstdCodec,
    observe: metrics.observeIngest,
    fastPath: createFastPath,
    certificates: createCertificateRegister(core, databases.certificates.db),
    statuses: statusesOf(core, pauseOf),
    accounts: createAccountRegister(core, sink),
    listen: (on) => databases.listen(ingestChannels(on)),
  });
  showGauges(metrics, ingest);
  const listener = await openListener(core, needs, ingest);
  const runningJobs = [
    ingest.watch(signal),
    runJobs({ clock, signal, log }, [
      ["budgets", budgetIntervalMs, followBudgets],
      ["ingest partitions", partitionIntervalMs, keepPartitions],
      ["abandoned copies", abandonedCopiesIntervalMs, createCopyCleanup(jobsCore)],
    ]),
  ];
  return {
    port: listener.port,
    health: ingest.health,
    /** The Forward streams that are open. */
    openStreams: () => ingest.gauges().openStreams,
    reopenStreams: ingest.reopenStreams,
    /** Lets calls under way finish for `graceMs`, stores what is pending, and waits for the jobs, which end with the signal. */
    close: async (graceMs: number) => {
      await listener.close(graceMs);
      await ingest.close();
      await Promise.all(runningJobs);
    },
  };
};

const createPartitionKeeper =
  ({ config: { retentionDays }, jobsCore, databaseClock }: StartNeeds) =>
  () =>
    // Drops nothing while the database's clock differs from this machine's.
    maintainIngestPartitions(
      { ...jobsCore, clock: systemClock },
      { retentionDays, databaseTime: databaseClock.measure },
    );

const statusesOf = (
  core: Core,
  pauseOf: (ms: number) => () => Promise<void>,
): StatusRegister | undefined => {
  // Without a signer core enrolls no host.
  if (core.signer === null) return undefined;
  const heartbeats = { ...core.heartbeats, pause: pauseOf(rarePauseMs) };
  return createStatusRegister({ ...core, heartbeats }, { pause: pauseOf(statusPauseMs) });
};

/** Creates the register of certificates, whose lookups have a pool of their own. */
export const createCertificateRegister = (
  core: WriteCore,
  db: Database,
): IngestNeeds["certificates"] => ({
  find: (fingerprints) => findCertificateStates(db, fingerprints),
  areActive: (fingerprints) => areCertificatesActive(db, fingerprints),
  ended: (since) => findEndedCertificates(db, since),
  use: (certificates) => markUsed(core, certificates),
  refused: (failure) => recordAuthFailure(core, failure),
});

const showGauges = (metrics: Metrics, { gauges }: Ingest) => {
  metrics.gauge("inFlightBytes", () => gauges().inFlightBytes);
  metrics.gauge("openStreams", () => gauges().openStreams);
};

const openListener = (core: Core, { config, tls, routes }: StartNeeds, ingest: Ingest) => {
  // Only routes with a proof of possession: on this listener the TLS certificate alone identifies the caller.
  const management = routes.filter(({ guard }) => guard.kind === "collector");
  const app = createApp(core, { peerOf: ingestPeerOf, routes: management });
  const managementPaths = new Set(management.map(({ path }) => path));
  const { host, port } = config;
  return listenFor("SVC_INGEST_GRPC_ADDR", () =>
    startIngestListener({
      host,
      port,
      tls,
      ingest: ingest.routes,
      app,
      managementPaths,
      clock: core.clock,
      log: core.log,
      handshakes: handshakesOf(config.handshakesOfAddress),
    }),
  );
};

/** Returns the handlers of the notifications for which ingest listens. */
export const ingestChannels = ({ revoked, directive }: IngestNotifications): Channels => ({
  [revocationChannel]: revoked,
  [directiveChannel]: (payload) => {
    const read = payload === undefined ? undefined : readDirective(payload);
    if (read) directive(read);
  },
});

/** Creates the register of accounts that arrive on streams, with the ranges of the sink that stores their envelopes. */
export const createAccountRegister = (
  core: AccountCore,
  { countedOf }: Pick<Sink, "countedOf"> = {},
): AccountRegister => {
  const accept = createAccountAcceptor(core, {
    ranges: countedOf && createStreamRanges(countedOf),
  });
  return {
    accept: ({ identity, fingerprintSha256, connection }, account, stream) =>
      accept({ identity, fingerprintSha256, der: connection?.der }, account, stream),
  };
};

/**
 * Creates the register of statuses that arrive on streams. It handles signed reports with the code of the route. `pause` spaces the
 * statements of the others.
 */
export const createStatusRegister = (
  core: HeartbeatCore & ManagementCore,
  grouping: { pause?: () => Promise<void> } = {},
): StatusRegister => {
  const acceptReport = createReportAcceptor(core, parseBody);
  const record = createStatusRecorder(core, grouping);
  const originOf = ({ remoteAddress }: CallerConnection) => ({
    requestId: uuidv7(core),
    remoteAddress,
  });
  return {
    intervalSeconds: core.config.heartbeatIntervalSeconds,
    accept: async ({ connection }, body, digest) => {
      if (connection === undefined) throw new Problem("client_certificate_required");
      return acceptReport({ der: connection.der, body, digest }, originOf(connection));
    },
    record({ connection, ...caller }, status) {
      if (connection === undefined) throw new Problem("client_certificate_required");
      return record({ ...caller, remoteAddress: connection.remoteAddress }, status, () =>
        originOf(connection),
      );
    },
  };
};
