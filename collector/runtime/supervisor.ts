/*
 * Joins queue, sources and core session, and follows the files on disk. Invariants:
 * - What appends starts after the queue is open and stops before it closes. The forwarder outlives the sources, so that it can send
 *   what they accepted last; the rest waits on disk for the next start.
 * - While the disk of the queue fails at the start, a stand-in takes its place: nothing is stored or forwarded, and no file is read.
 * - However a start or a run ends, every part that was started is stopped, in that order, and the queue's lock is released.
 * - A change on disk takes effect as a whole or not at all: if it cannot run, that is reported and the previous config stays in effect.
 *   Only the parts that a change concerns are stopped; the queue closes for a change of `buffer` alone.
 */
import { isDeepStrictEqual } from "node:util";
import type { LineLog } from "#kit/line-log.ts";
import type { Log } from "#kit/log.ts";
import type { Tracer } from "#kit/tracing/tracer.ts";
import { caChannels } from "#proto/management/ca-bundle.ts";
import type { ReportedCondition } from "#proto/management/heartbeat.ts";
import { watchFiles } from "../config/file-watch.ts";
import { isUsable, loadConfig, sourceSettings, type UsableConfig } from "../config/load-config.ts";
import type { CollectorEnv } from "../env.ts";
import { bundleDirectoryOf, bundleFile } from "../identity/channel-trust.ts";
import { withRules } from "../processors/with-rules.ts";
import { isDiskUnwritable } from "../queue/errors.ts";
import { openQueue, openStandIn, type Queue, type QueueOptions } from "../queue/queue.ts";
import { traceAppend } from "../queue/trace-append.ts";
import type { PositionedSourceDependencies, Source, SourceSettings } from "../sources/source.ts";
import { createSourceSet, type SourceSet } from "../sources/source-set.ts";
import { type StatusSocket, serveStatus } from "../status/status-socket.ts";
import { composeStatus } from "./compose-status.ts";
import { type CoreSession, openCoreSession } from "./core-session.ts";
import { composeDiagAnswer } from "./diag-answer.ts";
import type { ProcessFacts } from "./heartbeat-report.ts";
import { drainAccounts, keepAccounts } from "./keep-accounts.ts";
import {
  configReportOf,
  createRunState,
  isSame,
  keepBundles,
  type RunState,
  recordErrors,
  rejectConfig,
  withStoredBundles,
} from "./run-state.ts";

/** How long a stop waits for a connected forwarder to empty the queue. */
const drainMs = 5_000;

/** The dependencies of a running collector. */
interface SupervisorOptions {
  loaded: UsableConfig;
  env: Pick<CollectorEnv, "clock" | "entropy" | "effectiveUid" | "variables">;
  facts: ProcessFacts;
  log: Pick<LineLog, "reload"> & Log;
  tracer: Tracer;
  createSource(
    config: SourceSettings,
    dependencies: PositionedSourceDependencies,
  ): Source | Promise<Source>;
  /** Returns the conditions of the host, such as a mount that does not answer. */
  hostConditions?(): readonly ReportedCondition[];
}

/**
 * Runs a collector until `signal` aborts; resolves when everything is stopped and the queue is closed. At the start it rejects, equally
 * stopped, if the queue cannot be opened (`QueueLockedError`, `QueueVersionError`) or a source cannot start (`SourceStartError`). It waits for
 * a queue whose disk fails, sends heartbeats and rejects telemetry, and for an address in use. Later, neither a lost connection nor a config
 * that cannot run ends it.
 */
export const superviseCollector = async (
  options: SupervisorOptions,
  signal: AbortSignal,
): Promise<void> => {
  const state = await createRunState(options.loaded, options.env, options.log);
  let lastStarted: UsableConfig | undefined;
  try {
    for (;;) {
      try {
        const isPendingPromotion = lastStarted !== undefined && lastStarted !== state.loaded;
        const next = await runWithQueue(options, state, signal, isPendingPromotion, () => {
          lastStarted = state.loaded;
        });
        if (next === undefined) return;
        state.loaded = next;
      } catch (error) {
        if (lastStarted === undefined || lastStarted === state.loaded) throw error;
        // For example because the new queue directory cannot be used.
        rejectConfig(state, state.loaded, error, options.log);
        state.loaded = lastStarted;
      }
    }
  } finally {
    await state.desired.close();
  }
};

/** Runs until the signal aborts and returns undefined, or until the queue must be reopened and returns the config for that. */
const runWithQueue = async (
  options: SupervisorOptions,
  state: RunState,
  signal: AbortSignal,
  isPendingPromotion: boolean,
  onStarted: () => void,
): Promise<UsableConfig | undefined> => {
  const { env, log, tracer } = options;
  const settings = { ...state.loaded.config.buffer, ...env, ...queueReports(log) };
  const keeping = new AbortController();
  const { queue, usable } = openOrStandIn(
    () => openQueue(settings),
    { ...options, settings, isPendingPromotion },
    keeping.signal,
  );
  const sources = createSourceSet((config) =>
    withRules(options.createSource)(config, {
      append: traceAppend(queue.append, tracer),
      refused: queue.accounts.refused,
      checkpoints: queue.checkpoints,
      clock: env.clock,
      log,
      tracer,
    }),
  );
  let running: Running | undefined;
  let socket: StatusSocket | undefined;
  let next: UsableConfig | undefined;
  const accounting = { queue, clock: env.clock, credentials: () => state.loaded.credentials, log };
  const kept = keepAccounts(accounting, keeping.signal);
  state.reportChange = () => running?.session.reportChange();
  const conditions = () => [
    ...[queue, ...sources.running()].flatMap((part) => part.condition?.() ?? []),
    ...(options.hostConditions?.() ?? []),
  ];
  const compose = () =>
    composeStatus({
      now: env.clock.now(),
      variables: env.variables,
      facts: options.facts,
      loaded: state.loaded,
      report: configReportOf(state, sources.running()),
      bundleTries: state.bundleTries,
      session: running?.session,
      queue: queue.stats(),
      sources: sources.running(),
      conditions: conditions(),
    });
  const drain = async () => {
    const { dir, ephemeral } = settings;
    // Records left in the old folder are sent once they are imported.
    const isEnding = next === undefined ? ephemeral : next.config.buffer.dir !== dir;
    if (next === undefined || isEnding)
      await drainAccounts(accounting, {
        forwarder: () => running?.session.forwarder(),
        isEnding,
        waitMs: drainMs,
      });
  };
  try {
    const session = await openSession(options, { state, queue, sources, conditions, usable });
    running = { state, queue, sources, session, conditions };
    const configs = sourceSettings(state.loaded).filter(canRun(usable));
    await sources.apply(configs, { retries: !isPendingPromotion });
    state.effectiveHash = state.loaded.runningConfigHash;
    socket = await serveStatus(state.loaded.config.buffer.dir, compose, log);
    onStarted();
    const names = sources.running().map(({ name }) => name);
    log.info({ identity: state.loaded.credentials.identity, sources: names }, "collector runs");
    next = await followFiles(options, running, usable, signal);
    log.info({}, next === undefined ? "collector stops" : "reopening the queue");
  } finally {
    await socket?.close();
    await sources.stop();
    keeping.abort();
    await kept;
    await drain();
    if (running !== undefined) await closeSession(running);
    await queue.close();
  }
  return next;
};

/** Selects the sources that can run. Without a queue files wait where they are: their positions are in it. */
const canRun =
  (usable: AbortSignal | undefined) =>
  ({ type }: SourceSettings): boolean =>
    usable === undefined || type === "otlp";

/** Puts each change of the files into effect, until the signal aborts or the queue must be reopened with the config that it returns. */
const followFiles = async (
  options: SupervisorOptions,
  running: Running,
  usable: AbortSignal | undefined,
  signal: AbortSignal,
): Promise<UsableConfig | undefined> => {
  const { state } = running;
  const waiting = usable ? AbortSignal.any([signal, usable]) : signal;
  while (!signal.aborted) {
    const found = usable?.aborted ? state.loaded : await waitForChange(options, running, waiting);
    if (found === undefined) continue;
    if (usable || !isDeepStrictEqual(found.config.buffer, state.loaded.config.buffer)) return found;
    await reload(options, running, found);
  }
  return undefined;
};

const queueReports = (log: Log) => ({
  onQuarantined: (folder: string, err: unknown) =>
    log.error({ err, folder }, "the queue was corrupt; quarantined it and created a new one"),
  onCorruptRecords: (sequences: readonly number[]) =>
    log.error({ sequences }, "moved corrupt records to the dead letters"),
  onLost: (records: number) =>
    log.error(
      { records },
      "the queue lacks records that it had stored: its files were damaged, or replaced by older ones",
    ),
  onWrongAge: () =>
    log.error({}, "the queue's own time was damaged, and is corrected; no record expired by it"),
});

/** How long after a failure the queue is opened again. */
const openPauseMs = 5_000;

/** Opens the queue or, unless a config is tried, its stand-in: `usable` then aborts once the queue can be opened. */
const openOrStandIn = (
  open: () => Queue,
  {
    settings,
    isPendingPromotion,
    env,
    log,
  }: Pick<SupervisorOptions, "env" | "log"> & {
    settings: QueueOptions;
    isPendingPromotion: boolean;
  },
  signal: AbortSignal,
): { queue: Queue; usable?: AbortSignal } => {
  try {
    return { queue: open() };
  } catch (error) {
    if (isPendingPromotion || !isDiskUnwritable(error)) throw error;
    log.error(
      { err: error, path: settings.dir },
      "the queue cannot be opened; nothing is stored until it can",
    );
    return { queue: openStandIn(settings, error), usable: untilUsable(open, env.clock, signal) };
  }
};

/** Returns a signal that aborts once the queue can be opened, or fails otherwise than by its disk. */
const untilUsable = (
  open: () => Queue,
  clock: CollectorEnv["clock"],
  signal: AbortSignal,
): AbortSignal => {
  const usable = new AbortController();
  const retry = async () => {
    while (!usable.signal.aborted) {
      await clock.sleep(openPauseMs, signal);
      try {
        await open().close();
        usable.abort();
      } catch (error) {
        if (!isDiskUnwritable(error)) usable.abort();
      }
    }
  };
  retry().catch(() => undefined);
  return usable.signal;
};

/** Waits until the files on disk are a usable config other than the one that runs, and returns it; undefined when the signal aborts. */
const waitForChange = async (
  { env, log }: SupervisorOptions,
  { state, session }: Running,
  signal: AbortSignal,
): Promise<UsableConfig | undefined> => {
  const watch = await watchFiles(filesOf(state.loaded), env);
  try {
    for (;;) {
      // Loads after the watch has started, so that no change falls in between.
      const found = await loadConfig(state.loaded.path, env);
      const isCandidate = isUsable(found) && !isSame(found, state.rejected);
      const next = isCandidate ? found : await withStoredBundles(state.loaded);
      keepBundles(next, state.loaded);
      if (signal.aborted) return undefined;
      if (!isSame(next, state.loaded)) return next;
      // Its bundles may be settled.
      state.loaded.trust = next.trust;
      recordErrors(state, found, log);
      await Promise.race([watch.next(signal, found.errors.length > 0), session.failed]);
    }
  } catch (error) {
    if (signal.aborted) return undefined;
    throw error;
  } finally {
    watch.close();
  }
};

const filesOf = ({ path, config }: UsableConfig): string[] => {
  const { certFile, keyFile, caFile } = config.forwarder.mtls;
  const coreCaFile = config.management.caFile;
  const bundles = bundleDirectoryOf(config);
  return [
    path,
    certFile,
    keyFile,
    caFile,
    ...(coreCaFile === undefined ? [] : [coreCaFile]),
    ...(bundles === undefined ? [] : caChannels.map((channel) => bundleFile(bundles, channel))),
  ];
};

const openSession = (
  options: SupervisorOptions,
  {
    state,
    queue,
    sources,
    conditions,
    usable,
  }: Omit<Running, "session"> & { usable?: AbortSignal | undefined },
): Promise<CoreSession> => {
  const { fingerprintSha256 } = state.loaded.credentials;
  return openCoreSession({
    ...options,
    loaded: state.loaded,
    bundleTries: state.bundleTries,
    queue,
    conditions,
    canForward: usable === undefined,
    lastAckAt: state.lastAckAt,
    lastHeartbeatAt: state.lastHeartbeatAt,
    heartbeatTurns: state.heartbeatTurns,
    rollbacks: state.rollbacks,
    configReport: () => configReportOf(state, sources.running()),
    onAccepted: () => {
      if (fingerprintSha256 !== state.rolledBackTo) state.rollbacks = 0;
      state.desired.accepted(state.effectiveHash);
    },
    onHeartbeatAnswer: (answer, fetchDesiredConfig) =>
      state.desired.assigned(answer.desired_config, fetchDesiredConfig),
    onConfigAssigned: (fetchDesiredConfig) => state.desired.changed(fetchDesiredConfig),
    composeDiag: () => composeDiagAnswer(state.loaded, options.env),
    onRollback: (fingerprint) => {
      state.rollbacks += 1;
      state.rolledBackTo = fingerprint;
    },
  });
};

/** Closes a session, and remembers what the next one continues from. */
const closeSession = async ({ state, session }: Running) => {
  state.lastAckAt = session.forwarder().lastAckAt;
  state.lastHeartbeatAt = session.heartbeat()?.lastSuccessAt ?? null;
  await session.close();
};

/** The parts that a reload may change. */
interface Running {
  state: RunState;
  queue: Queue;
  sources: SourceSet;
  session: CoreSession;
  conditions(): readonly ReportedCondition[];
}

/** Puts `next` into effect. Changes nothing if one of its sources cannot start. */
const reload = async (options: SupervisorOptions, running: Running, next: UsableConfig) => {
  const { log } = options;
  const { state, sources } = running;
  try {
    await sources.apply(sourceSettings(next), { retries: false });
  } catch (error) {
    rejectConfig(state, next, error, log);
    return;
  }
  const before = state.loaded;
  const { runningConfigHash } = before;
  const {
    sources: sourcesBefore,
    processors,
    localProcessors,
    log: logBefore,
    labels,
  } = before.config;
  if (!isDeepStrictEqual(next.config.log, logBefore)) log.reload(next.config.log);
  // A session does not depend on sources, their rules, log and labels.
  const rules = { processors, localProcessors };
  const config = { ...next.config, sources: sourcesBefore, ...rules, log: logBefore, labels };
  const forSession = { ...next, runningConfigHash, config };
  const keepsSession = isSame(forSession, before);
  state.loaded = next;
  state.errors = [];
  state.rejected = undefined;
  log.info(
    { fingerprint_sha256: next.credentials.fingerprintSha256, session_kept: keepsSession },
    "reloaded",
  );
  if (!keepsSession) await closeSession(running);
  state.effectiveHash = next.runningConfigHash;
  if (keepsSession) running.session.reportChange();
  else running.session = await openSession(options, running);
};
