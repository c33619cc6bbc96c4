/*
 * Applies the config that core assigns to this host (contract §8, `apply_desired_config`). Invariants:
 * - The config file is always a whole one: it changes by one rename, to a text that was validated on this host, and the text
 *   before is on disk as last known good by then.
 * - A config is on trial from the switch on until core took a heartbeat or a frame from a collector that runs it. A trial that ends
 *   otherwise (2 minutes, a source that cannot start, repeated restarts) puts the last known good text back by itself.
 * - What was refused or rolled back is not tried again until core assigns something else.
 */

import { readFile, realpath, rename, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { errorCode } from "../../kit/describe-error.ts";
import type { Log } from "../../kit/log.ts";
import { configHash } from "../../proto/collector-config/hash.ts";
import type { ConfigDesiredResponse } from "../../proto/management/config-desired.ts";
import type { HeartbeatResponse } from "../../proto/management/heartbeat.ts";
import type { CollectorEnv } from "../env.ts";
import { fsyncDirectory, writeDurably } from "../files/private-files.ts";
import { ManagementError } from "../management/management-error.ts";
import { describeConfigError } from "./describe-config-error.ts";
import { refusedChanges } from "./desired-rules.ts";
import { type DesiredState, desiredFiles, readDesiredState, writeDesiredState } from "./desired-state.ts";
import { loadConfig, type UsableConfig } from "./load-config.ts";

type Env = Pick<CollectorEnv, "clock" | "entropy" | "effectiveUid">;
type Assigned = HeartbeatResponse["desired_config"];
type Assignment = NonNullable<ConfigDesiredResponse["assignment"]>;

/** A trial must prove itself within this time. */
export const trialMs = 120_000;
/** With the one that began it; a machine may be restarted in the middle of a trial, a config that ends the process may not. */
const trialStartsMax = 2;

/** The configs that core assigns. */
export interface DesiredConfigs {
  /** Core told what it wants; fetches and applies it, in the background, if it is new. */
  assigned(assigned: Assigned, fetch: (currentConfigId: string | undefined) => Promise<ConfigDesiredResponse>): void;
  /** Core took a heartbeat or a frame while the config with this hash ran. */
  served(runningHash: string | null): void;
  /** The file on disk could not be run. */
  failed(reasons: readonly string[]): void;
  report(): { desiredHash: string | undefined; lastKnownGoodHash: string | undefined; errors: readonly string[] };
  /** Resolves when nothing is written any more. */
  close(): Promise<void>;
}

/** The configs for the collector whose config is at `configPath`; `running` is what runs. */
export const openDesiredConfigs = async (options: {
  configPath: string;
  env: Env;
  log: Log;
  running(): { loaded: UsableConfig; errors: readonly string[] };
}): Promise<DesiredConfigs> => {
  const { configPath, env, log, running } = options;
  let state = await readDesiredState(configPath);
  let wanted: Assigned = null;
  let busy: Promise<unknown> = Promise.resolve();
  let asked = false;
  let proven = false;
  /** Why the last change could not be made; it is made again with a later heartbeat. */
  let trouble: string | null = null;
  const closing = new AbortController();

  const save = async (next: Partial<DesiredState>) => {
    const changed = { ...state, ...next };
    await writeDesiredState(configPath, changed, env);
    state = changed;
  };

  /** One change at a time. */
  const inBackground = (work: () => Promise<void>): Promise<unknown> => {
    busy = busy.then(async () => {
      if (closing.signal.aborted) return;
      try {
        await work();
        trouble = null;
      } catch (error) {
        trouble = describeTrouble(error);
        log.error({ err: error }, "a desired config could not be applied or kept; trying again");
      }
    });
    return busy;
  };

  const refuse = async (configId: string, reasons: readonly string[]) => {
    log.error({ config_id: configId, reasons }, "the desired config is refused");
    await save({ refused: { config_id: configId, reasons: [...reasons] } });
  };

  const rollBack = async (trial: DesiredState["trial"], reason: string) => {
    if (trial === null || state.trial?.config_id !== trial.config_id) return;
    await refuse(trial.config_id, [`rolled back: ${reason}`]); // first: a crash before the next step must not try it again
    await restoreLastKnownGood(configPath, env);
    await save({ trial: null });
  };

  const watchTrial = () => {
    const { trial } = state;
    const end = () => inBackground(() => rollBack(trial, "no heartbeat and no ack succeeded in 2 minutes"));
    env.clock.sleep(trialMs, closing.signal).then(end, () => undefined);
  };

  const apply = async (fetched: Assignment) => {
    const { loaded } = running();
    const { config_id: configId, config_hash: hash, yaml } = fetched;
    if (hash === loaded.runningConfigHash) return save({ applied: configId, refused: null });
    const text = await readFile(configPath, "utf8");
    // Somebody is at the file: what is on disk must be what runs before it can be the last known good one.
    if ((await configHash(text)) !== loaded.runningConfigHash) return;
    if (yaml === undefined || (await configHash(yaml)) !== hash)
      return refuse(configId, ["its text does not have the hash that core assigned"]);
    const files = desiredFiles(configPath);
    const target = await realpath(configPath);
    const { mode } = await stat(target);
    await writeDurably(files.candidate, yaml, env, mode & 0o777);
    const candidate = await loadConfig(files.candidate, env);
    const reasons = candidate.errors.map(describeConfigError);
    if (candidate.config !== undefined) reasons.push(...refusedChanges(loaded.config, candidate.config));
    if (reasons.length > 0) return refuse(configId, reasons);
    await writeDurably(files.lastKnownGood, text, env, mode & 0o777);
    await save({
      trial: { config_id: configId, config_hash: hash, starts: 1 },
      refused: null,
      last_known_good_hash: loaded.runningConfigHash,
    });
    try {
      await rename(files.candidate, target);
    } catch (error) {
      await save({ trial: null });
      throw error;
    }
    await fsyncDirectory(dirname(target));
    log.info({ config_id: configId, config_hash: hash }, "the desired config is on trial");
    watchTrial();
  };

  if (state.trial !== null) watchTrial();
  return {
    assigned: (assigned, fetch) => {
      const { loaded, errors } = running();
      wanted = loaded.config.management.applyDesiredConfig ? assigned : null;
      if (asked || state.trial !== null) return;
      const isKnown = wanted === null || [state.applied, state.refused?.config_id].includes(wanted.config_id);
      const forgets = state.refused !== null && state.refused.config_id !== wanted?.config_id;
      if (!forgets && (isKnown || errors.length > 0)) return;
      asked = true;
      const work = async () => {
        if (forgets) await save({ refused: null });
        if (isKnown || errors.length > 0) return;
        const { assignment } = await fetch(state.applied ?? undefined);
        if (assignment !== null) await apply(assignment);
      };
      void inBackground(work).then(() => {
        asked = false;
      });
    },
    served: (runningHash) => {
      const { trial } = state;
      if (proven || trial === null || trial.config_hash !== runningHash) return;
      proven = true;
      const work = async () => {
        if (state.trial === null) return;
        await save({ applied: trial.config_id, trial: null });
        log.info({ config_id: trial.config_id }, "the desired config has proved itself");
      };
      void inBackground(work).then(() => {
        proven = false;
      });
    },
    failed: (reasons) => {
      const { trial } = state;
      if (trial !== null) void inBackground(() => rollBack(trial, reasons.join("; ")));
    },
    report: () => ({
      desiredHash: wanted?.config_hash,
      lastKnownGoodHash: state.last_known_good_hash ?? undefined,
      errors: [...(state.refused?.reasons ?? []), ...(trouble === null ? [] : [trouble])].map(
        (reason) => `desired config: ${reason}`,
      ),
    }),
    close: async () => {
      closing.abort();
      await busy;
    },
  };
};

/** What the file system says names paths, which are nobody's business but this host's. */
const describeTrouble = (error: unknown): string => {
  if (error instanceof ManagementError) return error.message;
  const code = errorCode(error);
  return code === undefined ? "it could not be applied" : `its files could not be written (${code})`;
};

const restoreLastKnownGood = async (configPath: string, env: Env): Promise<void> => {
  const target = await realpath(configPath);
  const text = await readFile(desiredFiles(configPath).lastKnownGood, "utf8");
  await writeDurably(target, text, env, (await stat(target)).mode & 0o777);
};

/**
 * Called before a start reads its config: goes back to the last known good one if the config on trial is invalid here, or if the
 * collector was already restarted with it. Gives whether it went back.
 */
export const resumeTrial = async (configPath: string, env: Env): Promise<boolean> => {
  const state = await readDesiredState(configPath);
  const { trial } = state;
  if (trial === null) return false;
  const { errors, runningConfigHash } = await loadConfig(configPath, env);
  const gone = runningConfigHash !== trial.config_hash;
  if (errors.length === 0 && !gone && trial.starts < trialStartsMax) {
    await writeDesiredState(configPath, { ...state, trial: { ...trial, starts: trial.starts + 1 } }, env);
    return false;
  }
  if (gone) {
    // A crash before the switch, or after the way back: the state says which.
    await writeDesiredState(configPath, { ...state, trial: null }, env);
    return false;
  }
  const reason = errors.length > 0 ? errors.map(describeConfigError).join("; ") : "the collector ended on trial";
  const refused = { config_id: trial.config_id, reasons: [`rolled back: ${reason}`] };
  await writeDesiredState(configPath, { ...state, refused }, env);
  await restoreLastKnownGood(configPath, env);
  await writeDesiredState(configPath, { ...state, trial: null, refused }, env);
  return true;
};
