import { isDeepStrictEqual } from "node:util";
import type { Log } from "#kit/log.ts";
import type { TokenBuckets } from "#kit/token-buckets.ts";
import { type CaChannel, caChannels } from "#proto/management/ca-bundle.ts";
import { type DesiredConfigs, openDesiredConfigs } from "../config/desired-config.ts";
import {
  describeConfigError,
  type LoadedConfig,
  type UsableConfig,
} from "../config/load-config.ts";
import type { CollectorEnv } from "../env.ts";
import {
  bundleDirectoryOf,
  readStoredBundle,
  type ServerTrust,
} from "../identity/channel-trust.ts";
import { createHeartbeatTurns } from "../management/heartbeat-sender.ts";
import type { Source } from "../sources/source.ts";
import { type BundleTries, trustWarnings } from "./bundle-renewal.ts";
import type { ConfigReport } from "./heartbeat-report.ts";

/** The state of a run across reloads and core sessions. */
export interface RunState {
  /** The config that runs. */
  loaded: UsableConfig;
  /** Why the files on disk are not what runs; empty if they are. */
  errors: readonly string[];
  /** The config on disk that was tried and could not run; it is not tried again. */
  rejected: UsableConfig | undefined;
  /** The hash of the config that every part runs with; during a reload still that of the previous one. */
  effectiveHash: string | null;
  desired: DesiredConfigs;
  /** From the previous core session. */
  lastAckAt: number | null;
  lastHeartbeatAt: number | null;
  heartbeatTurns: TokenBuckets;
  bundleTries: BundleTries;
  /** The number of consecutive renewals that were rolled back, and the fingerprint of the credentials that the last rollback restored. */
  rollbacks: number;
  rolledBackTo: string | undefined;
  /** Reports what has changed, if there is a core session that can. */
  reportChange(): void;
}

/** Creates the state of a run that starts with `loaded`. */
export const createRunState = async (
  loaded: UsableConfig,
  env: Pick<CollectorEnv, "clock" | "entropy" | "effectiveUid">,
  log: Log,
): Promise<RunState> => {
  const desired = await openDesiredConfigs({
    configPath: loaded.path,
    env,
    log,
    running: () => state,
    onChange: () => state.reportChange(),
  });
  const state: RunState = {
    loaded,
    errors: [],
    rejected: undefined,
    effectiveHash: loaded.runningConfigHash,
    desired,
    lastAckAt: null,
    lastHeartbeatAt: null,
    heartbeatTurns: createHeartbeatTurns(env.clock),
    bundleTries: new Map(),
    rollbacks: 0,
    rolledBackTo: undefined,
    reportChange: () => undefined,
  };
  return state;
};

/** Returns what heartbeats and `status` report about the config and its sources. */
export const configReportOf = (
  { loaded, errors, desired, bundleTries }: RunState,
  sources: readonly Source[],
): ConfigReport => {
  const { desiredHash, lastKnownGoodHash, errors: desiredErrors } = desired.report();
  const { desiredConfigHash, lastKnownGoodConfigHash, applyDesiredConfig } =
    loaded.config.management;
  return {
    valid: errors.length === 0,
    errors: [...errors, ...desiredErrors],
    warnings: [
      ...trustWarnings(loaded.trust, bundleTries),
      ...sources.flatMap(({ warnings }) => warnings?.() ?? []),
    ],
    caBundles: {
      ingest: loaded.trust.ingest.bundle?.number ?? null,
      management: loaded.trust.management?.bundle?.number ?? null,
      pinned: bundleDirectoryOf(loaded.config) === undefined,
    },
    runningConfigHash: loaded.runningConfigHash,
    desiredConfigHash: desiredHash ?? desiredConfigHash,
    lastKnownGoodConfigHash: lastKnownGoodHash ?? lastKnownGoodConfigHash,
    applyDesiredConfig,
    labels: loaded.config.labels,
  };
};

/** Records the errors of the config on disk, which is invalid, or is what runs. */
export const recordErrors = (state: RunState, found: LoadedConfig, log: Log): void => {
  if (isSame(found, state.rejected)) return;
  state.rejected = undefined;
  const errors = found.errors.map(describeConfigError);
  if (isDeepStrictEqual(errors, state.errors)) return;
  state.errors = errors;
  if (errors.length > 0) state.desired.failed(errors);
  if (errors.length > 0)
    log.error({ errors }, "the config on disk is invalid; the previous one stays in effect");
  else log.info({}, "the config on disk is valid and in effect again");
  state.reportChange();
};

/** Records that the valid config on disk could not run. The previous one stays in effect. */
export const rejectConfig = (
  state: RunState,
  next: UsableConfig,
  error: unknown,
  log: Log,
): void => {
  state.rejected = next;
  state.errors = [error instanceof Error ? error.message : "unknown reason"];
  state.desired.failed(state.errors);
  log.error(
    { errors: state.errors },
    "the config on disk cannot run; the previous one stays in effect",
  );
  state.reportChange();
};

/** Returns the config that runs with the bundles on disk, which count also while another config there cannot run. */
export const withStoredBundles = async (running: UsableConfig): Promise<UsableConfig> => {
  const directory = bundleDirectoryOf(running.config);
  if (directory === undefined) return running;
  const read = async (channel: CaChannel, { caFile }: ServerTrust) => ({
    caFile,
    ...(await readStoredBundle(directory, channel)),
  });
  const { ingest, management } = running.trust;
  const trust = {
    ingest: await read("ingest", ingest),
    ...(management && { management: await read("management", management) }),
  };
  return { ...running, trust };
};

/** Puts the running bundle in place of each whose file is damaged, so that it verifies core until a restart. */
export const keepBundles = ({ trust }: LoadedConfig, running: LoadedConfig): void => {
  for (const channel of caChannels) {
    const { [channel]: found } = trust;
    const bundle = running.trust[channel]?.bundle;
    if (found?.fault && bundle) trust[channel] = { ...found, bundle };
  }
};

/** Reports whether two loaded configs run alike and are reported alike, apart from whether their bundles are settled. */
export const isSame = (one: LoadedConfig, other: LoadedConfig | undefined): boolean =>
  other !== undefined && isDeepStrictEqual(comparable(one), comparable(other));

const comparable = ({ errors, runningConfigHash, config, credentials, trust }: LoadedConfig) => ({
  errors,
  runningConfigHash,
  config,
  credentials: credentials && [credentials.certificatePem, credentials.keyPem],
  trust: caChannels.map((channel) => {
    const { caFile, bundle } = trust[channel] ?? {};
    return [caFile, bundle?.number, bundle?.sha256];
  }),
});
