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
import { parseDocument } from "yaml";
import { errorCode } from "#kit/describe-error.ts";
import type { Log } from "#kit/log.ts";
import { configHash } from "#proto/collector-config/hash.ts";
import { parseCollectorConfig } from "#proto/collector-config/parse.ts";
import type { Labels } from "#proto/labels.ts";
import type { ConfigDesiredResponse } from "#proto/management/config-desired.ts";
import {
  desiredErrorPrefix,
  type HeartbeatResponse,
  rolledBackPrefix,
} from "#proto/management/heartbeat.ts";
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
import { describeConfigError, loadConfig, type UsableConfig } from "./load-config.ts";

type Env = Pick<CollectorEnv, "clock" | "entropy" | "effectiveUid">;
type Assigned = HeartbeatResponse["desired_config"];
type Fetch = (currentConfigId: string | undefined) => Promise<ConfigDesiredResponse>;
type Assignment = NonNullable<ConfigDesiredResponse["assignment"]>;

/** How long a config may be pending promotion. */
const promotionTimeoutMs = 120_000;

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
  let state = await readDesiredState(configPath);
  let wanted: Assigned = null;
  let lastChange: Promise<unknown> = Promise.resolve();
  let fetching = false;
  let promoting = false;
  /** The fetch of the last `changed` that waits. */
  let waiting: Fetch | undefined;
  /** The config that was rolled back because core was silent, and is tried once more. */
  let silentWith: string | undefined;
  /** Why the last change failed; a later heartbeat triggers it again. */
  let changeError: string | null = null;
  const closing = new AbortController();

  const save = async (next: Partial<DesiredState>) => {
    const changed = { ...state, ...next };
    await writeDesiredState(configPath, changed, env);
    state = changed;
  };

  /** Runs one change after the other. */
  const inBackground = (change: () => Promise<void>): Promise<unknown> => {
    lastChange = lastChange.then(async () => {
      if (closing.signal.aborted) return;
      try {
        await change();
        changeError = null;
      } catch (error) {
        const isLimited = error instanceof ManagementError && error.failure.code === "rate_limited";
        changeError = isLimited ? null : describeFailure(error);
        log.error({ err: error }, "a desired config could not be applied or promoted; retrying");
      }
      onChange();
      if (waiting !== undefined) void changed(waiting);
    });
    return lastChange;
  };

  const reject = async (configId: string, reasons: readonly string[]) => {
    log.error({ config_id: configId, reasons }, "the desired config is rejected");
    await save({ rejected: { config_id: configId, reasons: [...reasons] } });
  };

  const rollBack = async (pending: DesiredState["pending"], reason: string, mayRetry = false) => {
    if (pending === null || state.pending?.config_id !== pending.config_id) return;
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
      await reject(configId, [why]); // first: a crash before the next step must not apply it again
    }
    if (isOnDisk) await restoreLastKnownGood(configPath, env);
    await save({ pending: null });
    if (isRetried) silentWith = configId; // last: a rollback that cannot be written is no try
  };

  const startPromotionTimeout = () => {
    const { pending } = state;
    const end = async () => {
      await inBackground(() =>
        rollBack(pending, "no heartbeat and no ack succeeded in 2 minutes", true),
      );
      // Its files could not be written.
      if (pending !== null && state.pending?.config_id === pending.config_id)
        startPromotionTimeout();
    };
    env.clock.sleep(promotionTimeoutMs, closing.signal).then(end, () => undefined);
  };

  const apply = async (assignment: Assignment) => {
    const { loaded } = running();
    const { config_id: configId, config_hash: hash, yaml } = assignment;
    const text = await readFile(configPath, "utf8");
    // The file is being changed, as by a rollback: only a text that runs can become the last known good one.
    if ((await configHash(text)) !== loaded.runningConfigHash) return;
    if (hash === loaded.runningConfigHash) return save({ applied: configId, rejected: null });
    if (yaml === undefined || (await configHash(yaml)) !== hash)
      return reject(configId, ["its text does not have the hash that core assigned"]);
    const present = parseCollectorConfig(text);
    const wantedText = keepLabels(yaml, present.ok ? present.config.labels : loaded.config.labels);
    if ((await configHash(wantedText)) !== hash)
      return reject(configId, ["the labels of this host cannot be added to its text"]);
    const files = desiredFiles(configPath);
    const target = await realpath(configPath);
    const { mode } = await stat(target);
    await writeDurably(files.candidate, wantedText, env, mode & 0o777);
    const candidate = await loadConfig(files.candidate, env);
    const reasons = candidate.errors.map(describeConfigError);
    if (candidate.config !== undefined)
      reasons.push(...rejectedChanges(loaded.config, candidate.config));
    if (reasons.length > 0) return reject(configId, reasons);
    await writeDurably(files.lastKnownGood, text, env, mode & 0o777);
    await save({
      pending: { config_id: configId, config_hash: hash, starts: 1 },
      rejected: null,
      last_known_good_hash: loaded.runningConfigHash,
    });
    try {
      await rename(files.candidate, target);
    } catch (error) {
      await save({ pending: null });
      throw error;
    }
    await fsyncDirectory(dirname(target));
    log.info({ config_id: configId, config_hash: hash }, "the desired config is pending promotion");
    startPromotionTimeout();
  };

  /** Returns the change that brings about what core assigns; undefined if nothing is to be done. */
  const changeTo = (assigned: Assigned, fetch: Fetch): (() => Promise<void>) | undefined => {
    const { loaded, errors } = running();
    wanted = loaded.config.management.applyDesiredConfig ? assigned : null;
    if (state.pending !== null) return undefined;
    const isKnown =
      wanted === null || [state.applied, state.rejected?.config_id].includes(wanted.config_id);
    const endsRejection = state.rejected !== null && state.rejected.config_id !== wanted?.config_id;
    if (!endsRejection && (isKnown || errors.length > 0)) return undefined;
    return async () => {
      if (endsRejection) await save({ rejected: null });
      if (isKnown || errors.length > 0) return;
      const { assignment } = await fetch(state.applied ?? undefined);
      if (assignment !== null) await apply(assignment);
    };
  };

  const start = async (change: (() => Promise<void>) | undefined): Promise<void> => {
    if (change === undefined) return;
    fetching = true;
    await inBackground(change);
    fetching = false;
    if (waiting !== undefined) await changed(waiting);
  };

  const changed = async (fetch: Fetch): Promise<void> => {
    if (!running().loaded.config.management.applyDesiredConfig) return;
    waiting = fetching || state.pending !== null ? fetch : undefined;
    if (waiting !== undefined) return;
    await start(async () => {
      const answer = await fetch(state.applied ?? undefined).catch(() => undefined);
      // The next heartbeat repeats what core assigns.
      if (answer !== undefined) await changeTo(answer.assignment, async () => answer)?.();
    });
  };

  if (state.pending !== null) startPromotionTimeout();
  return {
    assigned: (assigned, fetch) => {
      if (fetching)
        wanted = running().loaded.config.management.applyDesiredConfig ? assigned : null;
      else void start(changeTo(assigned, fetch));
    },
    changed,
    accepted: (effectiveHash) => {
      const { pending } = state;
      if (promoting || pending === null || pending.config_hash !== effectiveHash) return;
      promoting = true;
      const change = async () => {
        if (state.pending === null) return;
        await save({ applied: pending.config_id, pending: null, rejected: null });
        log.info({ config_id: pending.config_id }, "the desired config is promoted");
      };
      void inBackground(change).then(() => {
        promoting = false;
      });
    },
    failed: (reasons) => {
      const { pending } = state;
      if (pending !== null) void inBackground(() => rollBack(pending, reasons.join("; ")));
    },
    report: () => ({
      desiredHash: wanted?.config_hash,
      lastKnownGoodHash: state.last_known_good_hash ?? undefined,
      errors: [
        ...(state.rejected?.reasons ?? []).map((reason) => `${desiredErrorPrefix}${reason}`),
        ...(changeError === null ? [] : [`desired config, retrying: ${changeError}`]),
      ],
    }),
    close: async () => {
      closing.abort();
      await lastChange;
    },
  };
};

/** Describes why a change failed. The file system's messages are left out, as they contain paths of this host. */
const describeFailure = (error: unknown): string => {
  if (error instanceof ManagementError) return error.message;
  const code = errorCode(error);
  return code === undefined
    ? "it could not be applied"
    : `its files could not be written (${code})`;
};

/**
 * Returns a config's text with `labels` in place of its own; without labels, the text as it is. Keeps comments. The hash of the config
 * stays the same, as labels do not count.
 */
const keepLabels = (text: string, labels: Labels): string => {
  if (Object.keys(labels).length === 0) return text;
  const document = parseDocument(text, { version: "1.2", schema: "core", merge: false });
  document.set("labels", document.createNode(labels));
  return document.toString({ lineWidth: 0 });
};
