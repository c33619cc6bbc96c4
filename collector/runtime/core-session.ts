/*
 * A core session: everything that runs against core with one config and one set of credentials. These are the forwarder, the
 * heartbeats, the renewals and the pending promotion of the credentials. Invariants:
 * - A session never changes its config or credentials: a change of either closes it and opens another one over the same queue.
 * - What was in flight is sent again from core's cursor, so no record is lost or stored twice.
 * - After `close` resolves, the session sends nothing and no longer changes the identity directory.
 */
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import type { Log } from "#kit/log.ts";
import type { TokenBuckets } from "#kit/token-buckets.ts";
import type { Tracer } from "#kit/tracing/tracer.ts";
import type { CaChannel } from "#proto/management/ca-bundle.ts";
import type { ConfigDesiredResponse } from "#proto/management/config-desired.ts";
import type { HeartbeatReport, ReportedCondition } from "#proto/management/heartbeat.ts";
import type { UsableConfig } from "../config/load-config.ts";
import type { Authorities } from "../connect/open-tls.ts";
import { createResumeTls } from "../connect/resume-tls.ts";
import type { CollectorEnv } from "../env.ts";
import {
  createConnector,
  createForwarder,
  type Forwarder,
  type ForwarderOptions,
  type ForwarderStatus,
} from "../forward/forwarder.ts";
import { authoritiesOf, bundleDirectoryOf } from "../identity/channel-trust.ts";
import {
  type IdentityDirectory,
  identityDirectoryOf,
  openIdentityDirectory,
} from "../identity/identity-directory.ts";
import { callCaBundle, callDesiredConfig, callDiag, callHeartbeat } from "../management/calls.ts";
import {
  createHeartbeatSender,
  type HeartbeatReply,
  type HeartbeatStatus,
} from "../management/heartbeat-sender.ts";
import { ManagementError } from "../management/management-error.ts";
import { createSentAt, type ManagementCaller, signBody } from "../management/signed-request.ts";
import { createStreamHeartbeats } from "../management/stream-heartbeats.ts";
import type { TransportOptions } from "../management/transport.ts";
import type { Queue } from "../queue/queue.ts";
import { createPendingPromotion, type PendingPromotion } from "../renewal/pending-promotion.ts";
import {
  createRenewals,
  planRenewal,
  type RenewalReport,
  type Renewals,
  renewalNotConfigured,
} from "../renewal/renewals.ts";
import { type BundleTries, createBundleRenewal } from "./bundle-renewal.ts";
import type { DiagAnswer } from "./diag-answer.ts";
import { createDirectiveFollower } from "./follow-directives.ts";
import {
  type ConfigReport,
  composeHeartbeat,
  measureUsage,
  type ProcessFacts,
} from "./heartbeat-report.ts";

const callTimeoutMs = 30_000;
const unknownCertificate = "certificate_unknown";

/** Fetches the config that core assigns to this host. Throws `ManagementError`. */
type FetchDesiredConfig = (currentConfigId: string | undefined) => Promise<ConfigDesiredResponse>;

/** The parameters and dependencies of a core session. */
interface CoreSessionOptions {
  loaded: UsableConfig;
  bundleTries: BundleTries;
  queue: Queue;
  /** Without it, nothing is forwarded: the queue is a stand-in. */
  canForward: boolean;
  env: Pick<CollectorEnv, "clock" | "entropy" | "effectiveUid" | "variables">;
  facts: ProcessFacts;
  log: Log;
  tracer: Tracer;
  /** From the previous session. */
  lastAckAt: number | null;
  lastHeartbeatAt: number | null;
  heartbeatTurns: TokenBuckets;
  /** How many renewals in a row were rolled back because core did not know the new certificate. */
  rollbacks: number;
  configReport(): ConfigReport;
  conditions(): readonly ReportedCondition[];
  /** Called whenever core accepts a heartbeat or acknowledges a frame. */
  onAccepted(): void;
  onHeartbeatAnswer(answer: HeartbeatReply, fetchDesiredConfig: FetchDesiredConfig): void;
  /** Called when core says that it has assigned another config. */
  onConfigAssigned(fetchDesiredConfig: FetchDesiredConfig): Promise<void>;
  composeDiag(): Promise<DiagAnswer>;
  /** Called after the previous credentials were restored on disk. */
  onRollback(fingerprintSha256: string | undefined): void;
}

/** An open core session. */
export interface CoreSession {
  forwarder(): ForwarderStatus;
  renewal(): RenewalReport;
  /** Undefined without `management.core_url`. */
  heartbeat(): HeartbeatStatus | undefined;
  /** Sends a heartbeat at once if the report has changed and a stream takes it. */
  reportChange(): void;
  /** Rejects if a part fails, which is a bug; never resolves. */
  readonly failed: Promise<never>;
  /** Resolves when every part has stopped. */
  close(): Promise<void>;
}

/** Opens a core session: it forwards and sends heartbeats at once, and renews when that is due. */
export const openCoreSession = async (options: CoreSessionOptions): Promise<CoreSession> => {
  const { loaded, env } = options;
  const closing = new AbortController();
  const path = identityDirectoryOf(loaded.config);
  const directory = path === undefined ? undefined : openIdentityDirectory(path, env);
  const promotion = await openPromotion(options, directory);
  const bundles = createSessionBundles(options, closing.signal);
  const renewals = await createSessionRenewals(options, directory, bundles);
  const accepted = () => {
    promotion?.promote();
    options.onAccepted();
  };
  const hasHeartbeats = loaded.config.management.coreUrl !== undefined;
  const onDirective = createDirectiveFollower({
    actions: {
      configAssigned: () => options.onConfigAssigned(fetchDesiredConfig),
      renewNow: () => renewals?.trigger(),
      reportNow: () => {
        streamed.renewReport();
        heartbeats.trigger();
      },
      sendDiag: ({ requestId }) => answerDiag(requestId),
    },
    ...env,
    signal: closing.signal,
  });
  const forwarder = createSessionForwarder(options, {
    authorities: bundles.authorities("ingest"),
    onAck: accepted,
    promotion,
    ...(hasHeartbeats ? { onDirective, onOpened: () => heartbeats.retry() } : {}),
  });
  const calls = createManagementCalls(options, forwarder, bundles, closing.signal);
  const fetchDesiredConfig = calls.desiredConfig;
  const answerDiag = createDiagSender(options, calls.diag);
  const figures = {
    forwarder: () => {
      const status = forwarder.status();
      return { ...status, lastAckAt: status.lastAckAt ?? options.lastAckAt };
    },
    renewal: () => renewals?.status() ?? renewalNotConfigured,
  };
  const { streamed, heartbeats } = createSessionHeartbeats(options, forwarder, figures, calls, {
    onAnswer: (answer) => {
      accepted();
      if (answer.renew_now) renewals?.trigger();
      if (answer.send_diag)
        onDirective({ action: "sendDiag", spreadMs: 0, requestId: answer.send_diag.request_id });
      if (answer.ca_bundles) bundles.follow(answer.ca_bundles, calls.caBundle);
      options.onHeartbeatAnswer(answer, fetchDesiredConfig);
    },
    onFailure: (code) => {
      if (code === unknownCertificate) promotion?.rollBack();
    },
  });
  const running = [forwarder.run(options.canForward ? closing.signal : AbortSignal.abort())];
  if (renewals) running.push(renewals.run(closing.signal));
  if (hasHeartbeats) running.push(heartbeats.run(closing.signal));
  return {
    ...figures,
    heartbeat: () => (hasHeartbeats ? heartbeats.status() : undefined),
    reportChange: () => {
      if (hasHeartbeats && streamed.isChanged()) heartbeats.trigger();
    },
    failed: Promise.race(running.map(rejectOnFailure)),
    close: async () => {
      closing.abort();
      await Promise.allSettled([...running, bundles.idle()]);
    },
  };
};

/** A part may end, as renewals do after a success; it must not fail. */
const rejectOnFailure = (part: Promise<void>): Promise<never> =>
  part.then(() => new Promise<never>(() => undefined));

type SessionBundles = ReturnType<typeof createBundleRenewal>;

const createSessionBundles = (options: CoreSessionOptions, signal: AbortSignal): SessionBundles => {
  const { loaded, bundleTries, env, log } = options;
  const path = bundleDirectoryOf(loaded.config);
  return createBundleRenewal({
    directory: path === undefined ? undefined : openIdentityDirectory(path, env),
    trust: loaded.trust,
    tries: bundleTries,
    isShared: reachesIngestListener(loaded),
    ...env,
    log,
    signal,
  });
};

/** Creates the management requests of a session, until `signal` aborts. */
const createManagementCalls = (
  options: CoreSessionOptions,
  { session }: Forwarder,
  bundles: SessionBundles,
  signal: AbortSignal,
) => {
  const { loaded, env } = options;
  const { forwarder } = loaded.config;
  // Heartbeats come each minute: most of what one costs core would be the connection.
  const transport: TransportOptions = {
    ...transportOf(options, bundles, callTimeoutMs),
    resume: createResumeTls(),
    ...(reachesIngestListener(loaded) ? { session } : {}),
  };
  const toIngest: TransportOptions = {
    ...transport,
    baseUrl: `https://${forwarder.endpoint}`,
    caPem: bundles.authorities("ingest"),
    serverName: forwarder.mtls.serverName,
    resume: createResumeTls(),
    session,
  };
  const callerFor = (
    purpose: "heartbeat" | "config_desired" | "diag" | "ca_bundle",
  ): ManagementCaller => ({
    credentials: loaded.credentials,
    sentAt: createSentAt(join(loaded.config.buffer.dir, `sent-at.${purpose}`), env),
    signal,
  });
  const heartbeat = callerFor("heartbeat");
  const desiredConfig = callerFor("config_desired");
  const diag = callerFor("diag");
  const caBundle = callerFor("ca_bundle");
  return {
    skewSeconds: heartbeat.sentAt.skewSeconds,
    signHeartbeat: async (report: HeartbeatReport) =>
      signBody("heartbeat", loaded.credentials, {
        sent_at: await heartbeat.sentAt.next(),
        ...report,
      }),
    heartbeat: (report: HeartbeatReport) => callHeartbeat(transport, heartbeat, report),
    desiredConfig: (currentConfigId: string | undefined) =>
      callDesiredConfig(transport, desiredConfig, currentConfigId),
    diag: (answer: Parameters<typeof callDiag>[2]) => callDiag(transport, diag, answer),
    caBundle: (channel: CaChannel) =>
      callCaBundle(channel === "ingest" ? toIngest : transport, caBundle, channel),
  };
};

/** Creates the heartbeats of a session: on the forwarder's stream where core takes them, otherwise as requests. */
const createSessionHeartbeats = (
  options: CoreSessionOptions,
  forwarder: Forwarder,
  figures: Pick<CoreSession, "forwarder" | "renewal">,
  calls: ReturnType<typeof createManagementCalls>,
  callbacks: Pick<Parameters<typeof createHeartbeatSender>[0], "onAnswer" | "onFailure">,
) => {
  const { env } = options;
  const compose = () => {
    const config = options.configReport();
    const queue = options.queue.stats();
    const usage = measureUsage();
    const conditions = options.conditions();
    const forwarder = figures.forwarder();
    const parts = { config, queue, usage, forwarder, renewal: figures.renewal(), conditions };
    const { lastAckAt } = forwarder;
    const lastAckAgeSeconds =
      lastAckAt === null ? null : Math.max(0, Math.round((env.clock.now() - lastAckAt) / 1000));
    return {
      report: composeHeartbeat(options.facts, parts),
      status: { queue, lastAckAgeSeconds, usage },
    };
  };
  const streamed = createStreamHeartbeats({
    forwarder,
    compose,
    sign: calls.signHeartbeat,
    answerTimeoutMs: callTimeoutMs,
    clock: env.clock,
  });
  const heartbeats = createHeartbeatSender({
    send: async () => (await streamed.send()) ?? calls.heartbeat(compose().report),
    skewSeconds: calls.skewSeconds,
    intervalSeconds: options.loaded.config.management.heartbeatIntervalSeconds,
    lastSuccessAt: options.lastHeartbeatAt,
    turns: options.heartbeatTurns,
    ...env,
    log: options.log,
    ...callbacks,
  });
  return { streamed, heartbeats };
};

const transportOf = (
  { loaded: { config }, env, tracer }: Pick<CoreSessionOptions, "loaded" | "env" | "tracer">,
  bundles: SessionBundles,
  timeoutMs: number,
): TransportOptions => ({
  baseUrl: config.management.coreUrl ?? "",
  caPem: bundles.authorities("management"),
  serverName: config.management.serverName,
  timeoutMs,
  proxy: { setting: config.proxy, variables: env.variables },
  tracer,
});

/** Reports whether management requests go to the listener that telemetry goes to: the forwarder's connection then serves both. */
const reachesIngestListener = ({ config, trust }: UsableConfig) => {
  const url = URL.parse(config.management.coreUrl ?? "");
  const ingest = URL.parse(`https://${config.forwarder.endpoint}`);
  if (url === null || ingest === null) return false;
  const nameOf = (name: string | undefined, { hostname }: URL) => name ?? hostname;
  return (
    url.origin === ingest.origin &&
    nameOf(config.management.serverName, url) ===
      nameOf(config.forwarder.mtls.serverName, ingest) &&
    trust.management !== undefined &&
    isDeepStrictEqual(authoritiesOf(trust.management), authoritiesOf(trust.ingest))
  );
};

/** Creates what answers a request of core for diagnostics, once; an answer that is lost is repeated when core repeats the request. */
const createDiagSender = (
  { composeDiag, log }: CoreSessionOptions,
  send: (answer: Parameters<typeof callDiag>[2]) => Promise<unknown>,
): ((requestId: string) => Promise<void>) => {
  let answered = "";
  return async (requestId) => {
    if (requestId === answered) return;
    try {
      const answer = await composeDiag();
      await send({ request_id: requestId, ...answer });
      log.info(
        { request_id: requestId, sent: "bundle" in answer },
        "answered core's request for diagnostics",
      );
    } catch (error) {
      const failure = error instanceof ManagementError ? error.failure : undefined;
      log.warn(
        { err: error, code: failure?.code, action: failure?.action },
        "diagnostics could not be sent",
      );
      if (failure?.action === "retry") return;
    }
    answered = requestId;
  };
};

const openPromotion = async (
  { loaded, env, log, onRollback }: CoreSessionOptions,
  directory: IdentityDirectory | undefined,
): Promise<PendingPromotion | undefined> => {
  const { credentials } = loaded;
  return (
    directory &&
    createPendingPromotion({ directory, credentials, clock: env.clock, log, onRollback })
  );
};

/** Returns undefined without core's URL, and for files that are laid out by hand: those two cannot be replaced in one step. */
const createSessionRenewals = async (
  { loaded, env, log, tracer, rollbacks }: CoreSessionOptions,
  directory: IdentityDirectory | undefined,
  bundles: SessionBundles,
): Promise<Renewals | undefined> => {
  if (directory === undefined || loaded.config.management.coreUrl === undefined) return undefined;
  const plan = planRenewal(loaded.credentials, await directory.renewAfter());
  const renew = async (signal: AbortSignal) => {
    const { renewCredentials, renewTimeoutMs } = await import("../renewal/renew-credentials.ts");
    const { path: configPath, credentials: inUse } = loaded;
    const transport = transportOf({ loaded, env, tracer }, bundles, renewTimeoutMs);
    const { certificate } = await renewCredentials({
      configPath,
      directory,
      inUse,
      transport,
      env,
      signal,
    });
    log.info({ not_after: certificate.validToDate.toISOString() }, "the certificate is renewed");
  };
  return createRenewals({ plan, renew, ...env, log, failures: rollbacks });
};

/** Creates the forwarder of a config's queue. */
export const createSessionForwarder = (
  {
    loaded,
    queue,
    env,
    log,
    tracer,
  }: Pick<CoreSessionOptions, "loaded" | "queue" | "env" | "log" | "tracer">,
  {
    authorities: ca = { inOrder: () => authoritiesOf(loaded.trust.ingest) },
    promotion,
    ...callbacks
  }: Pick<ForwarderOptions, "onOpened" | "onAck" | "onDirective"> & {
    authorities?: Authorities | undefined;
    promotion: PendingPromotion | undefined;
  },
): Forwarder => {
  const { config, credentials } = loaded;
  const { endpoint, mtls, batch, maxInFlightFrames, compression } = config.forwarder;
  const tls = {
    cert: credentials.certificatePem,
    key: credentials.keyPem,
    ca,
    serverName: mtls.serverName,
  };
  const proxy = { setting: config.proxy, variables: env.variables };
  const connect = createConnector(endpoint, tls, env.clock, proxy);
  return createForwarder({
    connect,
    hostId: credentials.identity,
    queue,
    batch,
    maxInFlightFrames,
    compression,
    ...env,
    log,
    tracer,
    ...callbacks,
    onFailure: (reason) => {
      if (reason === unknownCertificate) promotion?.rollBack();
    },
  });
};
