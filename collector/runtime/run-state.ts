import { isDeepStrictEqual } from "node:util";
import type { Log } from "../../kit/log.ts";
import { describeConfigError } from "../config/describe-config-error.ts";
import { type DesiredConfigs, openDesiredConfigs } from "../config/desired-config.ts";
import type { LoadedConfig, UsableConfig } from "../config/load-config.ts";
import type { CollectorEnv } from "../env.ts";
import type { ConfigReport } from "./heartbeat-report.ts";

/** What is told of a run, whatever of it is being replaced. */
export interface RunState {
  loaded: UsableConfig;
  /** Why the files on disk are not what runs; empty when they are. */
  errors: readonly string[];
  /** What the files said when it could not be run; it is not tried again. */
  refused: UsableConfig | undefined;
  /** Of the config that all parts run with; the one before while a change takes effect. */
  servingHash: string | null;
  desired: DesiredConfigs;
  /** Of the session before the open one. */
  lastAckAt: number | null;
  lastHeartbeatAt: number | null;
  /** How often in a row core did not know a pair that it had issued, and the pair that is in use again since. */
  rollbacks: number;
  rolledBackTo: string | undefined;
}

/** The state of a run that starts with `loaded`. */
export const createRunState = async (
  loaded: UsableConfig,
  env: Pick<CollectorEnv, "clock" | "entropy" | "effectiveUid">,
  log: Log,
): Promise<RunState> => {
  const desired = await openDesiredConfigs({ configPath: loaded.path, env, log, running: () => state });
  const { runningConfigHash: servingHash } = loaded;
  const state: RunState = {
    loaded,
    errors: [],
    refused: undefined,
    servingHash,
    desired,
    lastAckAt: null,
    lastHeartbeatAt: null,
    rollbacks: 0,
    rolledBackTo: undefined,
  };
  return state;
};

/** What heartbeats and `status` tell of the config. */
export const reportOf = ({ loaded, errors, desired }: RunState): ConfigReport => {
  const { desiredHash, lastKnownGoodHash, errors: desiredErrors } = desired.report();
  const { desiredConfigHash, lastKnownGoodConfigHash } = loaded.config.management;
  return {
    valid: errors.length === 0,
    errors: [...errors, ...desiredErrors],
    runningConfigHash: loaded.runningConfigHash,
    desiredConfigHash: desiredHash ?? desiredConfigHash,
    lastKnownGoodConfigHash: lastKnownGoodHash ?? lastKnownGoodConfigHash,
  };
};

/** Takes note of what the files say while it cannot be run, or is what runs. */
export const noteErrors = (state: RunState, found: LoadedConfig, log: Log): void => {
  if (isSame(found, state.refused)) return;
  state.refused = undefined;
  const errors = found.errors.map(describeConfigError);
  if (isDeepStrictEqual(errors, state.errors)) return;
  state.errors = errors;
  if (errors.length > 0) state.desired.failed(errors);
  if (errors.length > 0) log.error({ errors }, "the config on disk is invalid; the one before runs on");
  else log.info({}, "the config on disk is what runs again");
};

/** What the files say could not be run; what ran before runs on. */
export const refuse = (state: RunState, next: UsableConfig, error: unknown, log: Log): void => {
  state.refused = next;
  state.errors = [error instanceof Error ? error.message : "unknown reason"];
  state.desired.failed(state.errors);
  log.error({ errors: state.errors }, "the config on disk cannot be run; the one before runs on");
};

/** Whether two inspections make no difference to what runs, nor to what is told of it. */
export const isSame = (one: LoadedConfig, other: LoadedConfig | undefined): boolean =>
  other !== undefined && isDeepStrictEqual(essenceOf(one), essenceOf(other));

const essenceOf = ({ errors, runningConfigHash, config, pair, ingestCaPem, coreCaPem }: LoadedConfig) => ({
  errors,
  runningConfigHash,
  config,
  pair: pair && [pair.certificatePem, pair.keyPem],
  ingestCaPem,
  coreCaPem,
});
