/*
 * Applies the config that core assigns to this host (`apply_desired_config`, docs/collector-config.md). Invariants:
 * - The config file is always complete: it changes by one rename, to a text that was validated on this host. Before that, the previous
 *   text is on disk as the last known good config.
 * - A config is pending promotion from that rename until core accepts a heartbeat or a frame from a collector that runs it. If that
 *   fails (2 minutes, a source that cannot start, repeated restarts), the last known good config is restored without help.
 * - A rejected config is not tried again until core assigns another one. One with which core was silent is tried twice: an outage of core
 *   says nothing about a config, and the second try begins with an answer of core.
 * - A rollback leaves a file as it is that somebody has changed on the host meanwhile.
 */

import { readFile, realpath, rename, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { minuteMs } from "#kit/clock.ts";
import { errorCode } from "#kit/describe-error.ts";
import type { Log } from "#kit/log.ts";
import { parseCollectorConfig } from "#proto/collector-config/parse.ts";
import { configHash } from "#proto/collector-config/tree.ts";
import type { CoreProblemCode } from "#proto/gen/problem-codes.ts";
import type { ConfigDesiredResponse } from "#proto/management/config-desired.ts";
import type { HeartbeatResponse } from "#proto/management/heartbeat.ts";
import { desiredErrorPrefix, rolledBackPrefix } from "#proto/rollout/vocabulary.ts";
import type { CollectorEnv } from "../env.ts";
import { fsyncDirectory, writeDurably } from "../files/private-files.ts";
import { ManagementError } from "../management/management-error.ts";
import { rejectedChanges } from "./desired-rules.ts";
import {
  type DesiredState,
  desiredFiles,
  readDesiredState,
  restoreLastKnownGood,
  writeDesiredState,
} from "./desired-state.ts";
import { keepHostOwned } from "./host-owned.ts";
import { describeConfigError, loadConfig, type UsableConfig } from "./load-config.ts";

type Env = Pick<CollectorEnv, "clock" | "entropy" | "effectiveUid">;
type Assigned = HeartbeatResponse["desired_config"];
type Fetch = (currentConfigId: string | undefined) => Promise<ConfigDesiredResponse>;
type Assignment = NonNullable<ConfigDesiredResponse["assignment"]>;

/** How long a config may be pending promotion. */
const promotionTimeoutMs = 2 * minuteMs;

/** The desired configs of one collector. */
export interface DesiredConfigs {
  /** Handles the assignment in a heartbeat's answer: fetches and applies it in the background if it is new. */
  assigned(assigned: Assigned, fetch: Fetch): void;
  /**
   * Core says that it has assigned another config: fetches and applies what is assigned, as `assigned` does, and resolves then. However many
   * calls come while a config is being fetched or pending, it fetches once more after that.
   */
  changed(fetch: Fetch): Promise<void>;
  /** Core accepted a heartbeat or a frame while the config with this hash was in effect. */
  accepted(effectiveHash: string | null): void;
  /** The config on disk could not run. */
  failed(reasons: readonly string[]): void;
  report(): {
    desiredHash: string | undefined;
    lastKnownGoodHash: string | undefined;
    errors: readonly string[];
  };
  /** Resolves when nothing is being written any more. */
  close(): Promise<void>;
}

/** Opens the desired configs for the config at `configPath`. `running` returns the config that runs, and the errors of the one on disk. */
export const openDesiredConfigs = async (options: {
  configPath: string;
  env: Env;
  log: Log;
  running(): { loaded: UsableConfig; errors: readonly string[] };
  /** Called when the report may have changed. */
  onChange(): void;
}): Promise<DesiredConfigs> => {
  const { configPath, env, log, running, onChange } = options;
  const store = await openStateStore(configPath, env, log);
  const closing = new AbortController();
  let wanted: Assigned = null;
  let fetching = false;
  /** The fetch of the last `changed` that waits. */
  let waiting: Fetch | undefined;
  let lastChange: Promise<unknown> = Promise.resolve();
  /** Why the last change failed; a later heartbeat triggers it again. */
  let changeError: string | null = null;

  /** Runs one change after the other. */
  const inBackground = (change: () => Promise<void>): Promise<unknown> => {
    lastChange = lastChange.then(async () => {
      if (closing.signal.aborted) return;
      try {
        await change();
        changeError = null;
      } catch (error) {
        const isLimited =
          error instanceof ManagementError &&
          error.failure.code === ("rate_limited" satisfies CoreProblemCode);
        changeError = isLimited ? null : describeFailure(error);
        log.error({ err: error }, "a desired config could not be applied or promoted; retrying");
      }
      onChange();
      if (waiting !== undefined) void changed(waiting);
    });
    return lastChange;
  };

  const promotion = createPromotion(options, store, inBackground, closing.signal);
  const isAllowed = () => running().loaded.config.management.applyDesiredConfig;

  const apply = async (assignment: Assignment) => {
    const { loaded } = running();
    const { config_id: configId, config_hash: hash, yaml } = assignment;
    const text = await readFile(configPath, "utf8");
    // The file is being changed, as by a rollback: only a text that runs can become the last known good one.
    if ((await configHash(text)) !== loaded.runningConfigHash || !parseCollectorConfig(text).ok)
      return;
    if (hash === loaded.runningConfigHash) return store.save({ applied: configId, rejected: null });
    if (yaml === undefined || (await configHash(yaml)) !== hash)
      return store.reject(configId, ["its text does not have the hash that core assigned"]);
    const wantedText = keepHostOwned(yaml, text);
    if ((await configHash(wantedText)) !== hash)
      return store.reject(configId, ["what belongs to this host cannot be added to its text"]);
    const files = desiredFiles(configPath);
    const target = await realpath(configPath);
    const { mode } = await stat(target);
    await writeDurably(files.candidate, wantedText, env, mode & 0o777);
    const candidate = await loadConfig(files.candidate, env);
    const reasons = candidate.errors.map(describeConfigError);
    if (candidate.config !== undefined)
      reasons.push(...rejectedChanges(loaded.config, candidate.config));
    if (reasons.length > 0) return store.reject(configId, reasons);
    await writeDurably(files.lastKnownGood, text, env, mode & 0o777);
    await store.save({
      pending: { config_id: configId, config_hash: hash, starts: 1 },
      rejected: null,
      last_known_good_hash: loaded.runningConfigHash,
    });
    try {
      await rename(files.candidate, target);
    } catch (error) {
      await store.save({ pending: null });
      throw error;
    }
    await fsyncDirectory(dirname(target));
    log.info({ config_id: configId, config_hash: hash }, "the desired config is pending promotion");
    promotion.begin();
  };

  /** Returns the change that brings about what core assigns; undefined if nothing is to be done. */
  const changeTo = (assigned: Assigned, fetch: Fetch): (() => Promise<void>) | undefined => {
    wanted = isAllowed() ? assigned : null;
    const { applied, pending, rejected } = store.state();
    if (pending !== null) return undefined;
    const isKnown = wanted === null || [applied, rejected?.config_id].includes(wanted.config_id);
    const endsRejection = rejected !== null && rejected.config_id !== wanted?.config_id;
    const isApplied = !isKnown && running().errors.length === 0;
    if (!endsRejection && !isApplied) return undefined;
    return async () => {
      if (endsRejection) await store.save({ rejected: null });
      if (!isApplied) return;
      const { assignment } = await fetch(store.state().applied ?? undefined);
      if (assignment !== null) await apply(assignment);
    };
  };

  const start = async (change: (() => Promise<void>) | undefined) => {
    if (change === undefined) return;
    fetching = true;
    await inBackground(change);
    fetching = false;
    if (waiting !== undefined) await changed(waiting);
  };

  const changed = async (fetch: Fetch) => {
    if (!isAllowed()) return;
    waiting = fetching || store.state().pending !== null ? fetch : undefined;
    if (waiting !== undefined) return;
    await start(async () => {
      const answer = await fetch(store.state().applied ?? undefined).catch(() => undefined);
      // The next heartbeat repeats what core assigns.
      if (answer !== undefined) await changeTo(answer.assignment, async () => answer)?.();
    });
  };

  if (store.state().pending !== null) promotion.begin();
  return {
    assigned: (assigned, fetch) => {
      if (fetching) wanted = isAllowed() ? assigned : null;
      else void start(changeTo(assigned, fetch));
    },
    changed,
    accepted: promotion.accepted,
    failed: promotion.failed,
    report: () => {
      const { rejected, last_known_good_hash: lastKnownGoodHash } = store.state();
      return {
        desiredHash: wanted?.config_hash,
        lastKnownGoodHash: lastKnownGoodHash ?? undefined,
        errors: [
          ...(rejected?.reasons ?? []).map((reason) => `${desiredErrorPrefix}${reason}`),
          ...(changeError === null ? [] : [`desired config, retrying: ${changeError}`]),
        ],
      };
    },
    close: async () => {
      closing.abort();
      await lastChange;
    },
  };
};

type StateStore = Awaited<ReturnType<typeof openStateStore>>;

/** Opens the state on disk; `state` returns what was saved last. */
const openStateStore = async (configPath: string, env: Env, log: Log) => {
  let state = await readDesiredState(configPath);
  const save = async (next: Partial<DesiredState>) => {
    const changed = { ...state, ...next };
    await writeDesiredState(configPath, changed, env);
    state = changed;
  };
  return {
    state: () => state,
    save,
    reject: async (configId: string, reasons: readonly string[]) => {
      log.error({ config_id: configId, reasons }, "the desired config is rejected");
      await save({ rejected: { config_id: configId, reasons: [...reasons] } });
    },
  };
};

/** Promotes the pending config once core accepts it, and otherwise rolls it back. */
const createPromotion = (
  {
    configPath,
    env,
    log,
  }: Pick<Parameters<typeof openDesiredConfigs>[0], "configPath" | "env" | "log">,
  store: StateStore,
  inBackground: (change: () => Promise<void>) => Promise<unknown>,
  signal: AbortSignal,
) => {
  let promoting = false;
  /** The config that was rolled back because core was silent, and is tried once more. */
  let silentWith: string | undefined;

  const isPending = (pending: DesiredState["pending"]) =>
    pending !== null && store.state().pending?.config_id === pending.config_id;

  const rollBack = async (pending: DesiredState["pending"], reason: string, mayRetry = false) => {
    if (pending === null || !isPending(pending)) return;
    const { config_id: configId, config_hash: hash } = pending;
    const isOnDisk = (await configHash(await readFile(configPath, "utf8"))) === hash;
    const isRetried = mayRetry && isOnDisk && configId !== silentWith;
    if (isRetried) {
      log.warn(
        { config_id: configId, reason },
        "the desired config is rolled back, and will be tried once more",
      );
    } else {
      const why = isOnDisk
        ? `${rolledBackPrefix}${reason}`
        : "the config file was changed on this host meanwhile";
      await store.reject(configId, [why]); // first: a crash before the next step must not apply it again
    }
    if (isOnDisk) await restoreLastKnownGood(configPath, env);
    await store.save({ pending: null });
    if (isRetried) silentWith = configId; // last: a rollback that cannot be written is no try
  };

  /** Rolls the pending config back after `promotionTimeoutMs`. */
  const begin = () => {
    const { pending } = store.state();
    const end = async () => {
      await inBackground(() =>
        rollBack(pending, "no heartbeat and no ack succeeded in 2 minutes", true),
      );
      // Its files could not be written.
      if (isPending(pending)) begin();
    };
    env.clock.sleep(promotionTimeoutMs, signal).then(end, () => undefined);
  };

  return {
    begin,
    accepted: (effectiveHash: string | null): void => {
      const { pending } = store.state();
      if (promoting || pending === null || pending.config_hash !== effectiveHash) return;
      promoting = true;
      const change = async () => {
        if (store.state().pending === null) return;
        await store.save({ applied: pending.config_id, pending: null, rejected: null });
        log.info({ config_id: pending.config_id }, "the desired config is promoted");
      };
      void inBackground(change).then(() => {
        promoting = false;
      });
    },
    failed: (reasons: readonly string[]): void => {
      const { pending } = store.state();
      if (pending !== null) void inBackground(() => rollBack(pending, reasons.join("; ")));
    },
  };
};

/** Describes why a change failed. The file system's messages are left out, as they contain paths of this host. */
const describeFailure = (error: unknown) => {
  if (error instanceof ManagementError) return error.message;
  const code = errorCode(error);
  return code === undefined
    ? "it could not be applied"
    : `its files could not be written (${code})`;
};
