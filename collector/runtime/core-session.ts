/*
 * All that speaks to core with one config and one pair: the forwarder, the heartbeats and the renewals. A change of either ends
 * the session and opens another over the same queue; what was in flight is sent again from core's cursor, so no sequence is lost
 * or stored twice.
 */
import { join } from "node:path";
import type { Log } from "../../kit/log.ts";
import type { ConfigDesiredResponse } from "../../proto/management/config-desired.ts";
import type { HeartbeatResponse } from "../../proto/management/heartbeat.ts";
import type { UsableConfig } from "../config/load-config.ts";
import type { CollectorEnv } from "../env.ts";
import { createForwarder, type Forwarder, type ForwarderStatus } from "../forward/forwarder.ts";
import { type IdentityDirectory, openIdentityDirectory } from "../identity/identity-directory.ts";
import { identityDirectoryOf } from "../identity/identity-layout.ts";
import { type Caller, callDesiredConfig, callHeartbeat } from "../management/calls.ts";
import { runHeartbeats } from "../management/heartbeats.ts";
import { ManagementError } from "../management/management-error.ts";
import { createSentAt } from "../management/sent-at.ts";
import type { TransportOptions } from "../management/transport.ts";
import type { Queue } from "../queue/queue.ts";
import { createPendingPromotion, type PendingPromotion } from "../renewal/pending-promotion.ts";
import { renewPair, renewTimeoutMs } from "../renewal/renew-credentials.ts";
import { planRenewal } from "../renewal/renewal-plan.ts";
import { createRenewals, type RenewalStatus, type Renewals, renewalNotConfigured } from "../renewal/renewals.ts";
import { type ConfigReport, composeReport, type ProcessFacts } from "./heartbeat-report.ts";

const callTimeoutMs = 30_000;

/** What a session is opened with. */
export interface CoreSessionOptions {
  loaded: UsableConfig;
  queue: Queue;
  env: Pick<CollectorEnv, "clock" | "entropy" | "effectiveUid">;
  facts: ProcessFacts;
  log: Log;
  /** Of the session before this one. */
  lastAckAt: number | null;
  lastHeartbeatAt: number | null;
  /** How often in a row core did not know a pair that it had issued. */
  rollbacks: number;
  configReport(): ConfigReport;
  /** Core took the pair: it answered a heartbeat or acknowledged a frame. */
  onServed(): void;
  onAnswer(answer: HeartbeatResponse, session: Pick<CoreSession, "fetchDesired">): void;
  /** The pair before is in use again on disk. */
  onRollback(fingerprintSha256: string | undefined): void;
}

/** How the heartbeats stand. */
export interface HeartbeatStatus {
  /** Milliseconds since the epoch. */
  lastSuccessAt: number | null;
  /** Why the last one failed; null when it did not. */
  lastError: string | null;
}

/** An open session. */
export interface CoreSession {
  forwarder(): ForwarderStatus;
  renewal(): RenewalStatus;
  /** Undefined without `management.core_url`. */
  heartbeat(): HeartbeatStatus | undefined;
  /** The config that core assigns to this host. Throws `ManagementError`. */
  fetchDesired(currentConfigId: string | undefined): Promise<ConfigDesiredResponse>;
  /** Rejects if a part fails, which none should; never resolves. */
  readonly failed: Promise<never>;
  /** Resolves when every part has ended; nothing is sent then, nor is the identity directory changed. */
  close(): Promise<void>;
}

/** Opens a session: it forwards and heartbeats at once, and renews when that is due. */
export const openCoreSession = async (options: CoreSessionOptions): Promise<CoreSession> => {
  const { loaded, env, log } = options;
  const closing = new AbortController();
  const path = identityDirectoryOf(loaded.config);
  const directory = path === undefined ? undefined : openIdentityDirectory(path, env);
  const promotion = await openPromotion(options, directory);
  const renewals = await createRenewalsOf(options, directory);
  const served = () => {
    promotion?.served();
    options.onServed();
  };
  const forwarder = createForwarderOf(options, served, promotion);
  const running = [forwarder.run(closing.signal)];
  if (renewals !== undefined) running.push(renewals.run(closing.signal));
  const { buffer, management } = loaded.config;
  const transport = transportOf(loaded, callTimeoutMs);
  const callerFor = (purpose: "heartbeat" | "config_desired"): Caller => ({
    pair: loaded.pair,
    sentAt: createSentAt(join(buffer.dir, `sent-at.${purpose}`), env),
    signal: closing.signal,
  });
  const heartbeatCaller = callerFor("heartbeat");
  const desiredCaller = callerFor("config_desired");
  const fetchDesired = (currentConfigId: string | undefined) =>
    callDesiredConfig(transport, desiredCaller, currentConfigId);
  const heartbeat: HeartbeatStatus = { lastSuccessAt: options.lastHeartbeatAt, lastError: null };
  let toldSkewSeconds = 0;
  const send = async () => {
    const figures = {
      config: options.configReport(),
      queue: options.queue.stats(),
      forwarder: statusOf(forwarder, options),
      renewal: renewals?.status() ?? renewalNotConfigured,
    };
    const answer = await callHeartbeat(transport, heartbeatCaller, composeReport(options.facts, figures));
    heartbeat.lastSuccessAt = env.clock.now();
    const skewSeconds = heartbeatCaller.sentAt.skewSeconds();
    heartbeat.lastError =
      skewSeconds === 0 ? null : `clock_skew: this host's clock is ${skewSeconds} s ahead of core's`;
    if (skewSeconds !== toldSkewSeconds)
      log.warn({ skew_seconds: skewSeconds }, "the clock of this host is not core's");
    toldSkewSeconds = skewSeconds;
    served();
    if (answer.renew_now) renewals?.trigger();
    options.onAnswer(answer, { fetchDesired });
    return answer;
  };
  const notice = (error: unknown): never => {
    heartbeat.lastError = error instanceof Error ? error.message : "unknown failure";
    if (error instanceof ManagementError && error.failure.code === unknownCertificate) promotion?.unknown();
    throw error;
  };
  if (management.coreUrl !== undefined)
    running.push(
      runHeartbeats({
        send: () => send().catch(notice),
        intervalSeconds: management.heartbeatIntervalSeconds,
        ...env,
        log,
        signal: closing.signal,
      }),
    );
  return {
    forwarder: () => statusOf(forwarder, options),
    renewal: () => renewals?.status() ?? renewalNotConfigured,
    heartbeat: () => (management.coreUrl === undefined ? undefined : { ...heartbeat }),
    fetchDesired,
    failed: Promise.race(running.map(endless)),
    close: async () => {
      closing.abort();
      await Promise.allSettled(running);
    },
  };
};

const unknownCertificate = "certificate_unknown";

/** A part that ends by itself is no reason to stop, one that fails is. */
const endless = (part: Promise<void>): Promise<never> => part.then(() => new Promise<never>(() => undefined));

const statusOf = (forwarder: Forwarder, { lastAckAt }: CoreSessionOptions): ForwarderStatus => {
  const status = forwarder.status();
  return { ...status, lastAckAt: status.lastAckAt ?? lastAckAt };
};

const transportOf = ({ config, coreCaPem }: UsableConfig, timeoutMs: number): TransportOptions => ({
  baseUrl: config.management.coreUrl ?? "",
  caPem: coreCaPem,
  serverName: config.management.serverName,
  timeoutMs,
});

const openPromotion = async (
  { loaded, env, log, onRollback }: CoreSessionOptions,
  directory: IdentityDirectory | undefined,
): Promise<PendingPromotion | undefined> =>
  directory && createPendingPromotion({ directory, pair: loaded.pair, clock: env.clock, log, onRollback });

/** None without core's URL, nor for files that are laid out by hand: those two cannot be replaced as one. */
const createRenewalsOf = async (
  { loaded, env, log, rollbacks }: CoreSessionOptions,
  directory: IdentityDirectory | undefined,
): Promise<Renewals | undefined> => {
  if (directory === undefined || loaded.config.management.coreUrl === undefined) return undefined;
  const plan = planRenewal(loaded.pair, await directory.renewAfter());
  const renew = async (signal: AbortSignal) => {
    const { path: configPath, pair: inUse } = loaded;
    const transport = transportOf(loaded, renewTimeoutMs);
    const pair = await renewPair({ configPath, directory, inUse, transport, env, signal });
    log.info({ not_after: pair.certificate.validToDate.toISOString() }, "the certificate is renewed");
  };
  return createRenewals({ plan, renew, ...env, log, failures: rollbacks });
};

const createForwarderOf = (
  { loaded, queue, env, log }: CoreSessionOptions,
  onAck: () => void,
  promotion: PendingPromotion | undefined,
): Forwarder => {
  const { config, pair, ingestCaPem } = loaded;
  const { endpoint, mtls, batch, maxInFlightFrames, compression } = config.forwarder;
  return createForwarder({
    endpoint,
    tls: {
      cert: pair.certificatePem,
      key: pair.keyPem,
      ca: ingestCaPem,
      ...(mtls.serverName === undefined ? {} : { serverName: mtls.serverName }),
    },
    hostId: pair.identity,
    queue,
    batch,
    maxInFlightFrames,
    compression,
    ...env,
    log,
    onAck,
    onFailure: (reason) => {
      if (reason === unknownCertificate) promotion?.unknown();
    },
  });
};
