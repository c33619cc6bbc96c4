/*
 * The one place that joins queue, sources, forwarder and heartbeats. Invariants:
 * - What appends starts after the queue is open and stops before it closes. The forwarder outlives the sources, so that what they
 *   accepted last has a chance to leave; what does not leave waits on disk for the next start.
 * - However a start or a run ends, every part that was started is stopped, in that order, and the queue's lock is given up.
 */
import { join } from "node:path";
import type { SourceConfig } from "../proto/collector-config/parse.ts";
import type { UsableInspection } from "./config/inspect.ts";
import type { CollectorEnv } from "./env.ts";
import { createForwarder, type Forwarder } from "./forward/forwarder.ts";
import type { Log } from "./log.ts";
import { callHeartbeat } from "./management/calls.ts";
import { runHeartbeats } from "./management/heartbeats.ts";
import { composeReport, type ProcessFacts } from "./management/report.ts";
import { createSentAt } from "./management/sent-at.ts";
import { openQueue, type Queue } from "./queue/queue.ts";
import type { FileSourceDependencies } from "./sources/file/file-source.ts";
import type { Source } from "./sources/source.ts";

/** How long a stop waits for a connected forwarder to empty the queue. */
const drainMs = 5_000;
const drainPollMs = 20;
const heartbeatTimeoutMs = 30_000;

/** What a collector runs with. */
export interface SupervisorOptions {
  inspection: UsableInspection;
  env: Pick<CollectorEnv, "clock" | "entropy">;
  facts: ProcessFacts;
  log: Log;
  /** Makes the source of a config entry. */
  createSource(config: SourceConfig, dependencies: FileSourceDependencies): Source;
}

/** A source could not start; the message says which and why. */
export class SourceStartError extends Error {
  override readonly name = "SourceStartError";
}

/**
 * Runs a collector until `signal` aborts; resolves when everything is stopped and the queue closed. Rejects, equally stopped, if
 * the queue cannot be opened (`QueueLockedError`) or a source cannot start (`SourceStartError`). A source or the forwarder losing
 * its peer is no end.
 */
export const superviseCollector = async (options: SupervisorOptions, signal: AbortSignal): Promise<void> => {
  const { inspection, env, log } = options;
  const { config } = inspection;
  const queue = openQueue({ ...config.buffer, ...env });
  const stopForwarding = new AbortController();
  const started: Source[] = [];
  const running: Promise<void>[] = [];
  let forwarder: Forwarder | undefined;
  try {
    forwarder = startForwarder(options, queue);
    running.push(forwarder.run(stopForwarding.signal));
    const { append, checkpoints } = queue;
    for (const entry of config.sources) {
      const source = options.createSource(entry, { append, checkpoints, clock: env.clock, log });
      started.push(source);
      await startSource(source);
    }
    running.push(sendHeartbeats(options, queue, forwarder, signal));
    log.info({ identity: inspection.pair.identity, sources: started.map(({ name }) => name) }, "collector runs");
    await Promise.race([stopped(signal), ...running.map(endless)]);
    log.info({}, "collector stops");
  } finally {
    await Promise.allSettled(started.map((source) => source.stop()));
    if (forwarder !== undefined) await drain(queue, forwarder, env.clock);
    stopForwarding.abort();
    await Promise.allSettled(running);
    await queue.close();
  }
};

const stopped = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener("abort", () => resolve(), { once: true });
  });

/** A part that ends by itself is no reason to stop, one that fails is. */
const endless = (part: Promise<void>): Promise<never> => part.then(() => new Promise<never>(() => undefined));

const startForwarder = ({ inspection, env, log }: SupervisorOptions, queue: Queue): Forwarder => {
  const { config, pair, ingestCaPem } = inspection;
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
  });
};

const startSource = async (source: Source): Promise<void> => {
  try {
    await source.start();
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : "unknown reason";
    throw new SourceStartError(`source ${source.name} cannot start: ${reason}`, { cause });
  }
};

/** Resolves when the signal aborts, at once without `management.core_url`. */
const sendHeartbeats = async (
  { inspection, env, facts, log }: SupervisorOptions,
  queue: Queue,
  forwarder: Forwarder,
  signal: AbortSignal,
): Promise<void> => {
  const { config, pair, runningConfigHash, coreCaPem } = inspection;
  const { coreUrl, serverName, heartbeatIntervalSeconds } = config.management;
  if (coreUrl === undefined) return;
  const transport = { baseUrl: coreUrl, caPem: coreCaPem, serverName, timeoutMs: heartbeatTimeoutMs };
  const sentAt = createSentAt(join(config.buffer.dir, "sent-at.heartbeat"), env);
  await runHeartbeats({
    send: () => {
      const figures = { config, runningConfigHash, queue: queue.stats(), forwarder: forwarder.status() };
      return callHeartbeat(transport, { pair, sentAt, signal }, composeReport(facts, figures));
    },
    intervalSeconds: heartbeatIntervalSeconds,
    ...env,
    log,
    signal,
  });
};

const drain = async (queue: Queue, forwarder: Forwarder, clock: CollectorEnv["clock"]): Promise<void> => {
  const end = clock.monotonic() + drainMs;
  while (queue.stats().records > 0 && forwarder.status().connected && clock.monotonic() < end)
    await clock.sleep(drainPollMs);
};
