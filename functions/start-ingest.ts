import { systemClock } from "#kit/clock.ts";
import { type Job, runJobs } from "#kit/run-every.ts";
import { budgetCheckSeconds } from "#proto/budget.ts";
import { createApp } from "./app.ts";
import type { IngestConfig } from "./config/core-config.ts";
import type { Core } from "./core.ts";
import { holdHosts } from "./domain/volume/hold-hosts.ts";
import type { Route } from "./http/route-definition.ts";
import type { ObjectAdopter } from "./ingest/adopt-objects.ts";
import { createIngest, type Ingest } from "./ingest/create-ingest.ts";
import { createFastPath } from "./ingest/fast-path/create-fast-path.ts";
import { createHeldHosts, holdBack } from "./ingest/held-hosts.ts";
import type { StatusRegister } from "./ingest/statuses.ts";
import {
  createAccountRegister,
  createCertificateRegister,
  createStatusRegister,
  ingestChannels,
} from "./ingest-registers.ts";
import {
  checkObjects,
  describeFaults,
  objectCheckMs,
  type StoreFaults,
} from "./jobs/check-objects.ts";
import type { DatabaseClock } from "./jobs/database-clock.ts";
import { abandonedCopiesIntervalMs, createCopyCleanup } from "./jobs/end-abandoned-copies.ts";
import { maintainIngestPartitions } from "./jobs/maintain-ingest-partitions.ts";
import { objectSweepMs, sweepObjects } from "./jobs/sweep-objects.ts";
import type { CoreDatabases } from "./node/database/core-databases.ts";
import type { NamedServers } from "./node/database/database-servers.ts";
import type { TlsMaterial } from "./node/follow-files.ts";
import { type AgentSockets, createAgentSockets } from "./node/ingest/agent-sockets.ts";
import { handshakesOf } from "./node/ingest/handshake-limits.ts";
import { ingestPeerOf, startIngestListener } from "./node/ingest/ingest-listener.ts";
import { openSink } from "./node/ingest/open-sink.ts";
import type { Metrics } from "./node/metrics.ts";
import type { Reloaded } from "./node/reload-files.ts";
import { listenFor } from "./node/run-configured.ts";
import { createAgentRegister } from "./opamp/create-agent-register.ts";
import { listStores } from "./store/ingest/objects.ts";

const partitionIntervalMs = 3_600_000;
const budgetIntervalMs = budgetCheckSeconds * 1_000;
/** Pauses between statements that several hosts share: one for a host alone costs PostgreSQL four times as much as among twenty. */
const pauses = {
  /** A host waits for them: lookups of certificates, and opening queues. */
  connectionMs: 20,
  /** Once for a host, or rare: first uses of certificates, and reports on streams. */
  rareMs: 250,
  statusMs: 1_000,
};

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
  const shared = { clock, entropy, log, pause: pauseOf(pauses.connectionMs) };
  const { sink, adopter } = await openSink(config, {
    ...shared,
    databaseUrl: sessions.servers.locate,
    hasStoredDigests: () => core.heartbeats.hasOlderCore?.() !== true,
    db,
    metrics,
    objects: core.objects,
  });
  const held = createHeldHosts(clock);
  const ingest = createIngest({
    ...shared,
    pauseUses: pauseOf(pauses.rareMs),
    config,
    hostIdBytesMax: core.config.hostIdBytesMax,
    sink: holdBack(sink, held),
    codec: core.codec,
    observe: metrics.observeIngest,
    fastPath: createFastPath,
    certificates: createCertificateRegister(core, databases.certificates.db),
    statuses: createStatuses(core, pauseOf),
    accounts: createAccountRegister(core),
    listen: (on) => databases.listen(ingestChannels(on)),
  });
  registerGauges(metrics, ingest);
  const { jobs, storeFaults } = await createObjectJobs(jobsCore, { metrics, adopter });
  const listener = await openListener(core, needs, ingest);
  const runningJobs = [
    ingest.watch(signal),
    runJobs({ clock, signal, log }, [
      ["budgets", budgetIntervalMs, createBudgetFollower(jobsCore, held)],
      ["ingest partitions", partitionIntervalMs, keepPartitions],
      ...jobs,
    ]),
  ];
  return {
    ...ingest,
    port: listener.port,
    storeFaults,
    /** The Forward streams that are open. */
    openStreams: () => ingest.gauges().openStreams,
    /** Lets calls under way finish for `graceMs`, stores what is pending, and waits for the jobs, which end with the signal. */
    close: async (graceMs: number) => {
      await listener.close(graceMs);
      await ingest.close();
      await Promise.all(runningJobs);
    },
  };
};

/** Creates the sockets of agents; none without a signer, since then core enrolls no host. */
const createAgents = (core: Core, { routes }: Ingest): AgentSockets | undefined =>
  core.signer === null
    ? undefined
    : createAgentSockets({ ...core, register: createAgentRegister(core), ingest: routes });

/** Creates the jobs of objects, also of those that cores no longer write, and what is left behind. */
const createObjectJobs = async (
  core: Core,
  { metrics, adopter }: Pick<StartNeeds, "metrics"> & { adopter: ObjectAdopter },
) => {
  const faults: StoreFaults = new Map();
  const { settleOld } = adopter;
  const observe = metrics.observeIngest;
  const jobs: Job[] = [
    ["abandoned copies", abandonedCopiesIntervalMs, createCopyCleanup(core)],
    ["objects", objectSweepMs, () => sweepObjects({ ...core, settleOld })],
    ["object check", objectCheckMs, () => checkObjects({ ...core, observe }, faults)],
  ];
  const hasStores = (await listStores(core.db)).length > 0;
  /** Returns why stores are unavailable, as sentences; null if this database has used none. */
  return { jobs, storeFaults: hasStores ? () => describeFaults(faults) : null };
};

const createPartitionKeeper =
  ({ config: { retentionDays }, jobsCore, databaseClock }: StartNeeds) =>
  () =>
    // Drops nothing while the database's clock differs from this machine's.
    maintainIngestPartitions(
      { ...jobsCore, clock: systemClock },
      { retentionDays, databaseTime: databaseClock.measure },
    );

const createBudgetFollower =
  (jobsCore: Core, held: ReturnType<typeof createHeldHosts>) => async () => {
    held.set(await holdHosts(jobsCore));
    // A report would be logged at every check.
    return undefined;
  };

const createStatuses = (
  core: Core,
  pauseOf: (ms: number) => () => Promise<void>,
): StatusRegister | undefined => {
  // Without a signer core enrolls no host.
  if (core.signer === null) return undefined;
  const heartbeats = { ...core.heartbeats, pause: pauseOf(pauses.rareMs) };
  return createStatusRegister({ ...core, heartbeats }, { pause: pauseOf(pauses.statusMs) });
};

const registerGauges = (metrics: Metrics, { gauges }: Ingest) => {
  metrics.gauge("inFlightBytes", () => gauges().inFlightBytes);
  metrics.gauge("openStreams", () => gauges().openStreams);
};

const openListener = (core: Core, { config, tls, routes }: StartNeeds, ingest: Ingest) => {
  // Only routes of hosts: on this listener the TLS certificate alone identifies the caller.
  const management = routes.filter(({ guard }) => ["collector", "agent"].includes(guard.kind));
  const app = createApp(core, { peerOf: ingestPeerOf, routes: management });
  const managementPaths = new Set(management.map(({ path }) => path));
  const { host, port } = config;
  const agents = createAgents(core, ingest);
  if (agents) ingest.directed.add(agents.direct);
  return listenFor("SVC_INGEST_GRPC_ADDR", () =>
    startIngestListener({
      host,
      port,
      tls,
      ingest: ingest.routes,
      app,
      managementPaths,
      agents,
      clock: core.clock,
      log: core.log,
      handshakes: handshakesOf(config.handshakesOfAddress),
    }),
  );
};
