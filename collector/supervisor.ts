/*
 * The one place that joins queue, sources and the contact with core, and keeps them as the files on disk say. Invariants:
 * - What appends starts after the queue is open and stops before it closes. The forwarder outlives the sources, so that what they
 *   accepted last has a chance to leave; what does not leave waits on disk for the next start.
 * - However a start or a run ends, every part that was started is stopped, in that order, and the queue's lock is given up.
 * - A change on disk takes effect as a whole or not at all: what cannot be run is reported, and what ran before runs on. Only what
 *   a change concerns is stopped; the queue closes for a change of `buffer` alone.
 */
import { isDeepStrictEqual } from "node:util";
import type { SourceConfig } from "../proto/collector-config/parse.ts";
import { describeConfigError } from "./config/describe-error.ts";
import { watchFiles } from "./config/file-watch.ts";
import { type Inspection, inspectConfig, isUsable, type UsableInspection } from "./config/inspect.ts";
import { type CoreContact, openCoreContact } from "./core-contact.ts";
import type { CollectorEnv } from "./env.ts";
import type { Log } from "./log.ts";
import { type DesiredConfigs, openDesiredConfigs } from "./management/desired-config.ts";
import type { ConfigReport, ProcessFacts } from "./management/report.ts";
import { openQueue, type Queue } from "./queue/queue.ts";
import type { ReloadableLog } from "./reloadable-log.ts";
import type { FileSourceDependencies } from "./sources/file/file-source.ts";
import type { Source } from "./sources/source.ts";
import { createSourceSet, type SourceSet } from "./sources/source-set.ts";

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

/** What is told of a run, whatever of it is being replaced. */
interface RunState {
  inspection: UsableInspection;
  /** Why the files on disk are not what runs; empty when they are. */
  errors: readonly string[];
  /** What the files said when it could not be run; it is not tried again. */
  refused: UsableInspection | undefined;
  /** Of the config that all parts run with; the one before while a change takes effect. */
  servingHash: string | null;
  desired: DesiredConfigs;
  lastAckAt: number | null;
  waysBack: number;
}

/**
 * Runs a collector until `signal` aborts; resolves when everything is stopped and the queue closed. Rejects, equally stopped, if
 * the queue cannot be opened (`QueueLockedError`) or a source cannot start (`SourceStartError`) at first. A source or the
 * forwarder losing its peer is no end, nor is a change of the config that cannot be run.
 */
export const superviseCollector = async (options: SupervisorOptions, signal: AbortSignal): Promise<void> => {
  const state = await createState(options);
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

const createState = async ({ inspection, env, log }: SupervisorOptions): Promise<RunState> => {
  const desired = await openDesiredConfigs({ configPath: inspection.path, env, log, running: () => state });
  const { runningConfigHash: servingHash } = inspection;
  const state: RunState = {
    inspection,
    errors: [],
    refused: undefined,
    servingHash,
    desired,
    lastAckAt: null,
    waysBack: 0,
  };
  return state;
};

/** Runs until the signal aborts, and gives undefined, or until the queue must be opened anew, and gives for which config. */
const runWithQueue = async (
  options: SupervisorOptions,
  state: RunState,
  signal: AbortSignal,
  onStarted: () => void,
): Promise<UsableInspection | undefined> => {
  const { env, log } = options;
  const queue = openQueue({ ...state.inspection.config.buffer, ...env });
  const { append, checkpoints } = queue;
  const sources = createSourceSet((config) =>
    options.createSource(config, { append, checkpoints, clock: env.clock, log }),
  );
  let contact: CoreContact | undefined;
  let next: UsableInspection | undefined;
  try {
    contact = await openContact(options, state, queue);
    await sources.apply(state.inspection.config.sources);
    state.servingHash = state.inspection.runningConfigHash;
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
    await sources.stop();
    if (contact !== undefined) {
      if (next === undefined) await drain(queue, contact, env.clock);
      state.lastAckAt = contact.forwarder().lastAckAt;
      await contact.close();
    }
    await queue.close();
  }
  return next;
};

const openContact = (options: SupervisorOptions, state: RunState, queue: Queue): Promise<CoreContact> =>
  openCoreContact({
    ...options,
    inspection: state.inspection,
    queue,
    lastAckAt: state.lastAckAt,
    waysBack: state.waysBack,
    configReport: () => reportOf(state),
    onServed: () => {
      state.waysBack = 0;
      state.desired.served(state.servingHash);
    },
    onAnswer: (answer, { fetchDesired }) => state.desired.assigned(answer.desired_config, fetchDesired),
    onGoneBack: () => {
      state.waysBack += 1;
    },
  });

const reportOf = ({ inspection, errors, desired }: RunState): ConfigReport => {
  const { desiredHash, lastKnownGoodHash, errors: desiredErrors } = desired.report();
  const { desiredConfigHash, lastKnownGoodConfigHash } = inspection.config.management;
  return {
    valid: errors.length === 0,
    errors: [...errors, ...desiredErrors],
    runningConfigHash: inspection.runningConfigHash,
    desiredConfigHash: desiredHash ?? desiredConfigHash,
    lastKnownGoodConfigHash: lastKnownGoodHash ?? lastKnownGoodConfigHash,
  };
};

/** Waits until the files say something that can be run and is not what runs, and gives it; undefined when the signal aborts. */
const awaitChange = async (
  { env, log }: SupervisorOptions,
  state: RunState,
  contact: CoreContact,
  signal: AbortSignal,
): Promise<UsableInspection | undefined> => {
  const watch = await watchFiles(filesOf(state.inspection), env);
  try {
    for (;;) {
      // Looked at once the watch stands, so that no change falls in between.
      const found = await inspectConfig(state.inspection.path, env);
      if (signal.aborted) return undefined;
      if (isUsable(found) && !isSame(found, state.inspection) && !isSame(found, state.refused)) return found;
      noteErrors(state, found, log);
      await Promise.race([watch.next(signal, found.errors.length > 0), contact.failed]);
    }
  } catch (error) {
    if (signal.aborted) return undefined;
    throw error;
  } finally {
    watch.close();
  }
};

const noteErrors = (state: RunState, found: Inspection, log: Log): void => {
  if (isSame(found, state.refused)) return;
  state.refused = undefined;
  const errors = found.errors.map(describeConfigError);
  if (isDeepStrictEqual(errors, state.errors)) return;
  state.errors = errors;
  if (errors.length > 0) state.desired.failed(errors);
  if (errors.length > 0) log.error({ errors }, "the config on disk is invalid; the one before runs on");
  else log.info({}, "the config on disk is what runs again");
};

const filesOf = ({ path, config }: UsableInspection): string[] => {
  const { certFile, keyFile, caFile } = config.forwarder.mtls;
  return [
    path,
    certFile,
    keyFile,
    caFile,
    ...(config.management.caFile === undefined ? [] : [config.management.caFile]),
  ];
};

/** Whether two inspections make no difference to what runs, nor to what is told of it. */
const isSame = (one: Inspection, other: Inspection | undefined): boolean =>
  other !== undefined && isDeepStrictEqual(essenceOf(one), essenceOf(other));

const essenceOf = ({ errors, runningConfigHash, config, pair, ingestCaPem, coreCaPem }: Inspection) => ({
  errors,
  runningConfigHash,
  config,
  pair: pair && [pair.certificatePem, pair.keyPem],
  ingestCaPem,
  coreCaPem,
});

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
  if (!keepsContact) {
    state.lastAckAt = contact.forwarder().lastAckAt;
    await contact.close();
  }
  state.servingHash = next.runningConfigHash;
  return keepsContact ? contact : openContact(options, state, queue);
};

const refuse = (state: RunState, next: UsableInspection, error: unknown, log: Log): void => {
  state.refused = next;
  state.errors = [error instanceof Error ? error.message : "unknown reason"];
  state.desired.failed(state.errors);
  log.error({ errors: state.errors }, "the config on disk cannot be run; the one before runs on");
};

const drain = async (queue: Queue, contact: CoreContact, clock: CollectorEnv["clock"]): Promise<void> => {
  const end = clock.monotonic() + drainMs;
  while (queue.stats().records > 0 && contact.forwarder().connected && clock.monotonic() < end)
    await clock.sleep(drainPollMs);
};
