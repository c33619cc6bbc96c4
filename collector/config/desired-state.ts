/*
 * The files of the desired config, beside the config file: its state, the last known good config, and a candidate that is being
 * validated. A rollback writes the rejection before it restores the file, and the end of the pending promotion after it, so that a
 * crash in between neither loses the rollback nor applies the config again.
 */
import { readFile, realpath, stat } from "node:fs/promises";
import * as v from "valibot";
import type { Entropy } from "#kit/entropy.ts";
import { parseCollectorConfig } from "#proto/collector-config/parse.ts";
import type { CollectorEnv } from "../env.ts";
import { writeDurably } from "../files/private-files.ts";
import { keepHostOwned } from "./host-owned.ts";
import { describeConfigError, loadConfig } from "./load-config.ts";

const Sha256 = v.pipe(v.string(), v.regex(/^[0-9a-f]{64}$/));

const Saved = v.object({
  /** The assignment whose config was applied and promoted. */
  applied: v.nullable(v.string()),
  /** The assignment that is pending promotion; `starts` counts the starts of the collector with it. */
  pending: v.nullable(v.object({ config_id: v.string(), config_hash: Sha256, starts: v.number() })),
  /** The assignment that was rejected or rolled back, and why; it is not tried again. */
  rejected: v.nullable(v.object({ config_id: v.string(), reasons: v.array(v.string()) })),
  /** The hash of the last known good config. */
  last_known_good_hash: v.nullable(Sha256),
});

/** The state of desired configs that a collector keeps across restarts. */
export type DesiredState = v.InferOutput<typeof Saved>;

const SavedState = v.fallback(v.pipe(v.string(), v.parseJson(), Saved), {
  applied: null,
  pending: null,
  rejected: null,
  last_known_good_hash: null,
});

/** Returns the paths of the files beside a config. */
export const desiredFiles = (configPath: string) => ({
  state: `${configPath}.desired-state`,
  lastKnownGood: `${configPath}.last-known-good`,
  candidate: `${configPath}.candidate`,
});

/** Reads the state beside the config at `configPath`. A missing or malformed one counts as none. */
export const readDesiredState = async (configPath: string): Promise<DesiredState> =>
  v.parse(SavedState, await readFile(desiredFiles(configPath).state, "utf8").catch(() => null));

/** Writes the state durably. */
export const writeDesiredState = (
  configPath: string,
  state: DesiredState,
  env: { entropy: Entropy },
): Promise<void> =>
  writeDurably(desiredFiles(configPath).state, `${JSON.stringify(state, null, 2)}\n`, env);

/** Restores the last known good config durably, with the file mode of the config that it replaces, and its labels and rules of the host. */
export const restoreLastKnownGood = async (
  configPath: string,
  env: { entropy: Entropy },
): Promise<void> => {
  const target = await realpath(configPath);
  const good = await readFile(desiredFiles(configPath).lastKnownGood, "utf8");
  const kept = keepHostOwned(good, await readFile(target, "utf8"));
  const text = parseCollectorConfig(kept).ok ? kept : good;
  await writeDurably(target, text, env, (await stat(target)).mode & 0o777);
};

/** The first start, and one more: a machine may restart while a config is pending promotion, but a config may not end the process. */
const pendingStartsMax = 2;

/**
 * Must run before a start loads its config. Rolls back to the last known good config if the one that is pending promotion is invalid
 * on this host, or if the collector was already restarted with it. Returns whether it rolled back.
 */
export const resumePendingConfig = async (
  configPath: string,
  env: Pick<CollectorEnv, "entropy" | "effectiveUid">,
): Promise<boolean> => {
  const state = await readDesiredState(configPath);
  const { pending } = state;
  if (pending === null) return false;
  const { errors, runningConfigHash } = await loadConfig(configPath, env);
  if (runningConfigHash !== pending.config_hash) {
    // A crash before the new file was in place, or after a rollback restored the old one.
    await writeDesiredState(configPath, { ...state, pending: null }, env);
    return false;
  }
  if (errors.length === 0 && pending.starts < pendingStartsMax) {
    const restarted = { ...pending, starts: pending.starts + 1 };
    // Starts on a full disk too: it may be the queue that fills it, which only a running collector empties.
    await writeDesiredState(configPath, { ...state, pending: restarted }, env).catch(
      () => undefined,
    );
    return false;
  }
  const reason =
    errors.length > 0
      ? errors.map(describeConfigError).join("; ")
      : "the collector ended before core accepted it";
  const rejected = { config_id: pending.config_id, reasons: [`rolled back: ${reason}`] };
  await writeDesiredState(configPath, { ...state, rejected }, env);
  await restoreLastKnownGood(configPath, env);
  await writeDesiredState(configPath, { ...state, pending: null, rejected }, env);
  return true;
};
