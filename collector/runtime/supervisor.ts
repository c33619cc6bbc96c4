/*
 * The one place that joins queue, sources and the contact with core, and keeps them as the files on disk say. Invariants:
 * - What appends starts after the queue is open and stops before it closes. The forwarder outlives the sources, so that what they
 *   accepted last has a chance to leave; what does not leave waits on disk for the next start.
 * - However a start or a run ends, every part that was started is stopped, in that order, and the queue's lock is given up.
 * - A change on disk takes effect as a whole or not at all: what cannot be run is reported, and what ran before runs on. Only what
 *   a change concerns is stopped; the queue closes for a change of `buffer` alone.
 */
import { isDeepStrictEqual } from "node:util";
import type { SourceConfig } from "../../proto/collector-config/parse.ts";
import type { UsableInspection } from "../config/inspect.ts";
import type { CollectorEnv } from "../env.ts";
import { openQueue, type Queue } from "../queue/queue.ts";
import type { FileSourceDependencies } from "../sources/file/file-source.ts";
import type { Source } from "../sources/source.ts";
import { createSourceSet, type SourceSet } from "../sources/source-set.ts";
import { type StatusSocket, serveStatus } from "../status/status-socket.ts";
import { awaitChange } from "./await-change.ts";
import { composeStatus } from "./compose-status.ts";
import { type CoreContact, openCoreContact } from "./core-session.ts";
import type { ProcessFacts } from "./heartbeat-report.ts";
import type { ReloadableLog } from "./reloadable-log.ts";
import { createRunState, isSame, type RunState, refuse, reportOf } from "./run-state.ts";

/** How long a stop waits for a connected forwarder to empty the queue. */
const drainMs = 5_000;
const drainPollMs = 20;

/** What a collector runs with. */
export interface SupervisorOptions {
  inspection: UsableInspection;
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
  const state = await createRunState(options.inspection, options.env, options.log);
  let proven: UsableInspection | undefined;
  try {
    for (;;) {
      try {
        const next = await runWithQueue(options, state, signal, () => {
          proven = state.inspection;
        });
        if (next === undefined) return;
        state.inspection = next;
      } catch (error) {
        if (proven === undefined || proven === state.inspection) throw error;
        // Another queue directory that cannot be used, say.
        refuse(state, state.inspection, error, options.log);
        state.inspection = proven;
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
): Promise<UsableInspection | undefined> => {
  const { env, log } = options;
  const onQuarantined = (folder: string, err: unknown) =>
    log.error({ err, folder }, "the queue was damaged and put aside");
  const onDamaged = (sequences: readonly number[]) =>
    log.error({ sequences }, "records on disk are not as they were stored; set aside");
  const queue = openQueue({ ...state.inspection.config.buffer, ...env, onQuarantined, onDamaged });
  const { append, checkpoints } = queue;
  const sources = createSourceSet((config) =>
    options.createSource(config, { append, checkpoints, clock: env.clock, log }),
  );
  let contact: CoreContact | undefined;
  let socket: StatusSocket | undefined;
  let next: UsableInspection | undefined;
  const compose = () => {
    const { inspection } = state;
    const now = env.clock.now();
    const report = reportOf(state);
    const parts = { contact, queue: queue.stats(), sources: sources.running() };
    return composeStatus({ now, facts: options.facts, inspection, report, ...parts });
  };
  try {
    contact = await openContact(options, state, queue);
    await sources.apply(state.inspection.config.sources);
    state.servingHash = state.inspection.runningConfigHash;
    socket = await serveStatus(state.inspection.config.buffer.dir, compose, log);
    onStarted();
    const names = sources.running().map(({ name }) => name);
    log.info({ identity: state.inspection.pair.identity, sources: names }, "collector runs");
    while (!signal.aborted && next === undefined) {
      const found = await awaitChange(options, state, contact, signal);
      if (found === undefined) continue;
      if (!isDeepStrictEqual(found.config.buffer, state.inspection.config.buffer)) next = found;
      else contact = await reload(options, { state, queue, sources, contact }, found);
    }
    log.info({}, next === undefined ? "collector stops" : "the queue is opened anew");
  } finally {
    await socket?.close();
    await sources.stop();
    if (contact !== undefined) {
      if (next === undefined) await drain(queue, contact, env.clock);
      await closeContact(state, contact);
    }
    await queue.close();
  }
  return next;
};

const openContact = (options: SupervisorOptions, state: RunState, queue: Queue): Promise<CoreContact> => {
  const { fingerprintSha256 } = state.inspection.pair;
  return openCoreContact({
    ...options,
    inspection: state.inspection,
    queue,
    lastAckAt: state.lastAckAt,
    lastHeartbeatAt: state.lastHeartbeatAt,
    waysBack: state.waysBack,
    configReport: () => reportOf(state),
    onServed: () => {
      if (fingerprintSha256 !== state.backTo) state.waysBack = 0;
      state.desired.served(state.servingHash);
    },
    onAnswer: (answer, { fetchDesired }) => state.desired.assigned(answer.desired_config, fetchDesired),
    onGoneBack: (to) => {
      state.waysBack += 1;
      state.backTo = to;
    },
  });
};

/** Remembers what the next contact goes on from. */
const closeContact = async (state: RunState, contact: CoreContact): Promise<void> => {
  state.lastAckAt = contact.forwarder().lastAckAt;
  state.lastHeartbeatAt = contact.heartbeat()?.lastSuccessAt ?? null;
  await contact.close();
};

/** The parts that a change may concern. */
interface Running {
  state: RunState;
  queue: Queue;
  sources: SourceSet;
  contact: CoreContact;
}

/** Lets `next` take effect; gives the contact that is open then. If a source of it cannot start, all stays as it was. */
const reload = async (
  options: SupervisorOptions,
  { state, queue, sources, contact }: Running,
  next: UsableInspection,
): Promise<CoreContact> => {
  const { log } = options;
  try {
    await sources.apply(next.config.sources);
  } catch (error) {
    refuse(state, next, error, log);
    return contact;
  }
  const before = state.inspection;
  const { runningConfigHash } = before;
  const { sources: sourcesBefore, log: logBefore } = before.config;
  if (!isDeepStrictEqual(next.config.log, logBefore)) log.reload(next.config.log);
  const talk = { ...next, runningConfigHash, config: { ...next.config, sources: sourcesBefore, log: logBefore } };
  const keepsContact = isSame(talk, before);
  state.inspection = next;
  state.errors = [];
  state.refused = undefined;
  log.info({ fingerprint_sha256: next.pair.fingerprintSha256, contact_kept: keepsContact }, "reloaded");
  if (!keepsContact) await closeContact(state, contact);
  state.servingHash = next.runningConfigHash;
  return keepsContact ? contact : openContact(options, state, queue);
};

const drain = async (queue: Queue, contact: CoreContact, clock: CollectorEnv["clock"]): Promise<void> => {
  const end = clock.monotonic() + drainMs;
  while (queue.stats().records > 0 && contact.forwarder().connected && clock.monotonic() < end)
    await clock.sleep(drainPollMs);
};
