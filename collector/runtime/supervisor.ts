/*
 * The one place that joins queue, sources and the session with core, and keeps them as the files on disk say. Invariants:
 * - What appends starts after the queue is open and stops before it closes. The forwarder outlives the sources, so that what they
 *   accepted last has a chance to leave; what does not leave waits on disk for the next start.
 * - However a start or a run ends, every part that was started is stopped, in that order, and the queue's lock is given up.
 * - A change on disk takes effect as a whole or not at all: what cannot be run is reported, and what ran before runs on. Only what
 *   a change concerns is stopped; the queue closes for a change of `buffer` alone.
 */
import { isDeepStrictEqual } from "node:util";
import type { SourceConfig } from "../../proto/collector-config/parse.ts";
import type { UsableConfig } from "../config/load-config.ts";
import type { CollectorEnv } from "../env.ts";
import { openQueue, type Queue } from "../queue/queue.ts";
import type { FileSourceDependencies } from "../sources/file/file-source.ts";
import type { Source } from "../sources/source.ts";
import { createSourceSet, type SourceSet } from "../sources/source-set.ts";
import { type StatusSocket, serveStatus } from "../status/status-socket.ts";
import { awaitChange } from "./await-change.ts";
import { composeStatus } from "./compose-status.ts";
import { type CoreSession, openCoreSession } from "./core-session.ts";
import type { ProcessFacts } from "./heartbeat-report.ts";
import type { ReloadableLog } from "./reloadable-log.ts";
import { createRunState, isSame, type RunState, refuse, reportOf } from "./run-state.ts";

/** How long a stop waits for a connected forwarder to empty the queue. */
const drainMs = 5_000;
const drainPollMs = 20;

/** What a collector runs with. */
export interface SupervisorOptions {
  loaded: UsableConfig;
  env: Pick<CollectorEnv, "clock" | "entropy" | "effectiveUid">;
  facts: ProcessFacts;
  log: ReloadableLog;
  /** Makes the source of a config entry. */
  createSource(config: SourceConfig, dependencies: FileSourceDependencies): Source;
}

/**
 * Runs a collector until `signal` aborts; resolves when everything is stopped and the queue closed. Rejects, equally stopped, if
 * the queue cannot be opened (`QueueLockedError`) or a source cannot start (`SourceStartError`) at first. A source or the
 * forwarder losing its peer is no end, nor is a change of the config that cannot be run.
 */
export const superviseCollector = async (options: SupervisorOptions, signal: AbortSignal): Promise<void> => {
  const state = await createRunState(options.loaded, options.env, options.log);
  let proven: UsableConfig | undefined;
  try {
    for (;;) {
      try {
        const next = await runWithQueue(options, state, signal, () => {
          proven = state.loaded;
        });
        if (next === undefined) return;
        state.loaded = next;
      } catch (error) {
        if (proven === undefined || proven === state.loaded) throw error;
        // Another queue directory that cannot be used, say.
        refuse(state, state.loaded, error, options.log);
        state.loaded = proven;
      }
    }
  } finally {
    await state.desired.close();
  }
};

/** Runs until the signal aborts, and gives undefined, or until the queue must be opened anew, and gives for which config. */
const runWithQueue = async (
  options: SupervisorOptions,
  state: RunState,
  signal: AbortSignal,
  onStarted: () => void,
): Promise<UsableConfig | undefined> => {
  const { env, log } = options;
  const onQuarantined = (folder: string, err: unknown) =>
    log.error({ err, folder }, "the queue was damaged and put aside");
  const onCorruptRecords = (sequences: readonly number[]) =>
    log.error({ sequences }, "records on disk are not as they were stored; set aside");
  const queue = openQueue({ ...state.loaded.config.buffer, ...env, onQuarantined, onCorruptRecords });
  const { append, checkpoints } = queue;
  const sources = createSourceSet((config) =>
    options.createSource(config, { append, checkpoints, clock: env.clock, log }),
  );
  let session: CoreSession | undefined;
  let socket: StatusSocket | undefined;
  let next: UsableConfig | undefined;
  const compose = () => {
    const { loaded } = state;
    const now = env.clock.now();
    const report = reportOf(state);
    const parts = { session, queue: queue.stats(), sources: sources.running() };
    return composeStatus({ now, facts: options.facts, loaded, report, ...parts });
  };
  try {
    session = await openSession(options, state, queue);
    await sources.apply(state.loaded.config.sources);
    state.servingHash = state.loaded.runningConfigHash;
    socket = await serveStatus(state.loaded.config.buffer.dir, compose, log);
    onStarted();
    const names = sources.running().map(({ name }) => name);
    log.info({ identity: state.loaded.pair.identity, sources: names }, "collector runs");
    while (!signal.aborted && next === undefined) {
      const found = await awaitChange(options, state, session, signal);
      if (found === undefined) continue;
      if (!isDeepStrictEqual(found.config.buffer, state.loaded.config.buffer)) next = found;
      else session = await reload(options, { state, queue, sources, session }, found);
    }
    log.info({}, next === undefined ? "collector stops" : "the queue is opened anew");
  } finally {
    await socket?.close();
    await sources.stop();
    if (session !== undefined) {
      if (next === undefined) await drain(queue, session, env.clock);
      await closeSession(state, session);
    }
    await queue.close();
  }
  return next;
};

const openSession = (options: SupervisorOptions, state: RunState, queue: Queue): Promise<CoreSession> => {
  const { fingerprintSha256 } = state.loaded.pair;
  return openCoreSession({
    ...options,
    loaded: state.loaded,
    queue,
    lastAckAt: state.lastAckAt,
    lastHeartbeatAt: state.lastHeartbeatAt,
    rollbacks: state.rollbacks,
    configReport: () => reportOf(state),
    onServed: () => {
      if (fingerprintSha256 !== state.rolledBackTo) state.rollbacks = 0;
      state.desired.served(state.servingHash);
    },
    onAnswer: (answer, { fetchDesired }) => state.desired.assigned(answer.desired_config, fetchDesired),
    onRollback: (to) => {
      state.rollbacks += 1;
      state.rolledBackTo = to;
    },
  });
};

/** Remembers what the next session goes on from. */
const closeSession = async (state: RunState, session: CoreSession): Promise<void> => {
  state.lastAckAt = session.forwarder().lastAckAt;
  state.lastHeartbeatAt = session.heartbeat()?.lastSuccessAt ?? null;
  await session.close();
};

/** The parts that a change may concern. */
interface Running {
  state: RunState;
  queue: Queue;
  sources: SourceSet;
  session: CoreSession;
}

/** Lets `next` take effect; gives the session that is open then. If a source of it cannot start, all stays as it was. */
const reload = async (
  options: SupervisorOptions,
  { state, queue, sources, session }: Running,
  next: UsableConfig,
): Promise<CoreSession> => {
  const { log } = options;
  try {
    await sources.apply(next.config.sources);
  } catch (error) {
    refuse(state, next, error, log);
    return session;
  }
  const before = state.loaded;
  const { runningConfigHash } = before;
  const { sources: sourcesBefore, log: logBefore } = before.config;
  if (!isDeepStrictEqual(next.config.log, logBefore)) log.reload(next.config.log);
  const talk = { ...next, runningConfigHash, config: { ...next.config, sources: sourcesBefore, log: logBefore } };
  const keepsSession = isSame(talk, before);
  state.loaded = next;
  state.errors = [];
  state.refused = undefined;
  log.info({ fingerprint_sha256: next.pair.fingerprintSha256, session_kept: keepsSession }, "reloaded");
  if (!keepsSession) await closeSession(state, session);
  state.servingHash = next.runningConfigHash;
  return keepsSession ? session : openSession(options, state, queue);
};

const drain = async (queue: Queue, session: CoreSession, clock: CollectorEnv["clock"]): Promise<void> => {
  const end = clock.monotonic() + drainMs;
  while (queue.stats().records > 0 && session.forwarder().connected && clock.monotonic() < end)
    await clock.sleep(drainPollMs);
};
