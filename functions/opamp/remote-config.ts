/*
 * Decides which config an OpAMP agent should run, by what is assigned to it and what it made of earlier configs. Stock agents neither
 * keep a config that worked nor return to it: core does both for them. Invariants:
 * - A config becomes the last known good one when the agent has run it, healthy, for the trial's time.
 * - An assignment fails at most once. Until another one replaces it, the agent is offered its last known good config.
 * - On one connection a config is offered again after `reofferMs` at the earliest, so that an agent whose hash never settles costs little.
 */
import { type RemoteConfigStatus, RemoteConfigStatuses } from "#proto/gen/opamp/v1/opamp_pb.js";
import type { HeartbeatReport } from "#proto/management/heartbeat.ts";
import { desiredErrorPrefix, rolledBackPrefix } from "#proto/rollout/vocabulary.ts";
import { cutText } from "#proto/values.ts";

/** What core remembers of an agent's configs; hashes are lowercase hex. */
export interface ConfigState {
  /** The config that was sent last. */
  offeredConfigHash: string | null;
  offeredAt: Date | null;
  /** The config that the agent applied last, and when it first reported that. */
  appliedConfigHash: string | null;
  appliedAt: Date | null;
  /** The assignment whose config failed, and why. */
  failedAssignmentId: string | null;
  failedReason: string | null;
  failedAt: Date | null;
  lastGoodConfigHash: string | null;
}

/** The state of an agent that has been sent no config. */
export const noConfigState: ConfigState = {
  offeredConfigHash: null,
  offeredAt: null,
  appliedConfigHash: null,
  appliedAt: null,
  failedAssignmentId: null,
  failedReason: null,
  failedAt: null,
  lastGoodConfigHash: null,
};

/** What is known of an agent when its config is decided. */
export interface ConfigFacts {
  /** Milliseconds since the epoch. */
  now: number;
  /** How long an agent must run a config until it counts as good. */
  trialMs: number;
  desired: { assignmentId: string; configHash: string } | null;
  /** Whether the agent accepts remote configs. */
  accepts: boolean;
  status: RemoteConfigStatus | undefined;
  /** Why it is unhealthy, by its last health; undefined while it is healthy or reports none. */
  unhealthy: string | undefined;
  /** Whether it has just reported an error: an earlier report may be of the config before, and one without an error of a start or a stop. */
  hasNewError: boolean;
  /** Whether it was silent for the trial's time. */
  wasSilent: boolean;
  /** Whether what core sent last may have been lost, as its connection is another since. */
  mayLackOffer: boolean;
  /** Whether core sends a command, with which the agent would ignore a config. */
  hasCommand: boolean;
}

/** The decision on an agent's config. */
export interface ConfigDecision {
  /** What to remember from now on; empty if nothing has changed. */
  change: Partial<ConfigState>;
  /** Its part of the host's report. */
  config: HeartbeatReport["config"];
  /** The hash of the config to send now. */
  offer: string | null;
  /** Whether the assigned config has just failed. */
  hasFailed: boolean;
  /** When to decide again, even without a message of the agent; now: at its next heartbeat. */
  lookAt: number;
}

/** An agent that does not report the hash of an offer gets it again after this time. */
const reofferMs = 60_000;

/** So does one that reports for so long that it applies the config: it may have been restarted meanwhile, and then reports nothing else. */
const applyingMs = 5 * 60_000;

const never = Number.POSITIVE_INFINITY;

/** Characters of a reason that are kept. */
const reasonMax = 400;

/** What an agent reports of its last remote config. */
interface Reported {
  /** Null for none, and for one that is no SHA-256, as of another server. */
  hash: string | null;
  isApplied: boolean;
  isApplying: boolean;
  /** Why it could not apply it. */
  fault: string | undefined;
}

/** Decides what an agent should run and what its host reports. */
export const decideConfig = (state: ConfigState, facts: ConfigFacts): ConfigDecision => {
  const reported = reportedOf(facts.status);
  const applied = withApplied(state, reported, facts);
  const judged = withFailure(applied, reported, facts);
  const settled = withLastGood(judged, reported, facts);
  const target = targetOf(settled, facts);
  const isKnown = target === reported.hash;
  const isPending = target !== null && (!isKnown || reported.isApplying);
  const waitMs = isKnown ? applyingMs : reofferMs;
  const isNews = !isKnown && (facts.mayLackOffer || target !== settled.offeredConfigHash);
  const isAwaited = isPending && (isNews || facts.now - timeOf(settled.offeredAt) >= waitMs);
  const isDue = isAwaited && !facts.hasCommand;
  const next = isDue
    ? { ...settled, offeredConfigHash: target, offeredAt: new Date(facts.now) }
    : settled;
  return {
    change: changeOf(state, next),
    config: configReport(next, reported, facts),
    offer: isDue ? target : null,
    hasFailed: judged.failedAssignmentId !== null && judged !== applied,
    lookAt: Math.min(
      isPending ? (isAwaited && !isDue ? facts.now : timeOf(next.offeredAt) + waitMs) : never,
      isOnTrial(next, facts) ? ifToCome(timeOf(next.appliedAt) + facts.trialMs, facts) : never,
      hasFailedWith(next, facts) ? ifToCome(timeOf(next.failedAt) + facts.trialMs, facts) : never,
    ),
  };
};

/** A time that has passed has decided: to look again would cost a transaction at each heartbeat. */
const ifToCome = (at: number, { now }: ConfigFacts): number => (at > now ? at : never);

const timeOf = (at: Date | null) => at?.getTime() ?? 0;

const reportedOf = (status: RemoteConfigStatus | undefined): Reported => {
  const hash = status?.lastRemoteConfigHash;
  const isFailed = status?.status === RemoteConfigStatuses.RemoteConfigStatuses_FAILED;
  return {
    hash: hash?.length === 32 ? hash.toHex() : null,
    isApplied: status?.status === RemoteConfigStatuses.RemoteConfigStatuses_APPLIED,
    isApplying: status?.status === RemoteConfigStatuses.RemoteConfigStatuses_APPLYING,
    fault: isFailed
      ? cutText(status.errorMessage, reasonMax) || "the agent reports no reason"
      : undefined,
  };
};

const withApplied = (
  state: ConfigState,
  { hash, isApplied }: Reported,
  { now }: ConfigFacts,
): ConfigState =>
  isApplied && hash !== null && hash !== state.appliedConfigHash
    ? { ...state, appliedConfigHash: hash, appliedAt: new Date(now) }
    : state;

const hasFailedWith = (
  { failedAssignmentId }: ConfigState,
  { desired }: Pick<ConfigFacts, "desired">,
) => desired !== null && failedAssignmentId === desired.assignmentId;

/** Reports whether the agent runs its desired config and has not shown yet that it can. */
export const isOnTrial = (state: ConfigState, facts: Pick<ConfigFacts, "desired">) =>
  facts.desired?.configHash === state.appliedConfigHash &&
  state.appliedConfigHash !== state.lastGoodConfigHash &&
  !hasFailedWith(state, facts);

const withFailure = (state: ConfigState, reported: Reported, facts: ConfigFacts): ConfigState => {
  if (hasFailedWith(state, facts) && !hasRecovered(state, reported, facts)) return state;
  const reason = failureOf(state, reported, facts);
  if (reason !== undefined && facts.desired !== null)
    return {
      ...state,
      failedAssignmentId: facts.desired.assignmentId,
      failedReason: cutText(reason, reasonMax),
      failedAt: new Date(facts.now),
    };
  return state.failedAssignmentId === null
    ? state
    : { ...state, failedAssignmentId: null, failedReason: null, failedAt: null };
};

/** Reports whether the agent runs the config that failed, because it had no other to return to, and does so well since. */
const hasRecovered = (state: ConfigState, { isApplied, hash }: Reported, facts: ConfigFacts) =>
  isApplied &&
  hash === facts.desired?.configHash &&
  hash === (state.lastGoodConfigHash ?? hash) &&
  facts.unhealthy === undefined &&
  facts.now - timeOf(state.failedAt) >= facts.trialMs;

/** Returns why the agent cannot run its desired config; undefined if it can, or may. */
const failureOf = (
  state: ConfigState,
  { hash, fault }: Reported,
  facts: ConfigFacts,
): string | undefined => {
  const { desired, now, trialMs, unhealthy, hasNewError, wasSilent } = facts;
  if (fault !== undefined) return hash === desired?.configHash ? fault : undefined;
  if (!isOnTrial(state, facts)) return undefined;
  if (wasSilent) return `was silent for ${trialMs / 1000} s after it was applied`;
  const hasEnded = now - timeOf(state.appliedAt) >= trialMs;
  return unhealthy !== undefined && (hasNewError || hasEnded)
    ? `unhealthy after it was applied: ${unhealthy}`
    : undefined;
};

const withLastGood = (state: ConfigState, reported: Reported, facts: ConfigFacts): ConfigState => {
  const { appliedConfigHash: hash } = state;
  const isProven =
    reported.isApplied &&
    reported.hash === hash &&
    facts.unhealthy === undefined &&
    facts.now - timeOf(state.appliedAt) >= facts.trialMs;
  const isFailed = hasFailedWith(state, facts) && facts.desired?.configHash === hash;
  return isProven && !isFailed && hash !== state.lastGoodConfigHash
    ? { ...state, lastGoodConfigHash: hash }
    : state;
};

/** Returns the hash of the config that the agent should run; null: what it has. */
const targetOf = (state: ConfigState, facts: ConfigFacts): string | null => {
  if (!facts.accepts || facts.desired === null) return null;
  return hasFailedWith(state, facts) ? state.lastGoodConfigHash : facts.desired.configHash;
};

const configReport = (
  state: ConfigState,
  reported: Reported,
  facts: ConfigFacts,
): ConfigDecision["config"] => {
  const { lastGoodConfigHash: lastGood } = state;
  const running = reported.isApplied ? reported.hash : state.appliedConfigHash;
  const hasFailed = hasFailedWith(state, facts);
  const isRolledBack =
    hasFailed &&
    reported.isApplied &&
    reported.hash === lastGood &&
    lastGood !== facts.desired?.configHash;
  const prefix = desiredErrorPrefix + (isRolledBack ? rolledBackPrefix : "");
  const isFaultKnown = hasFailed && reported.hash === facts.desired?.configHash;
  return {
    valid: hasFailed ? isRolledBack : reported.fault === undefined,
    errors: [
      ...(hasFailed ? [`${prefix}${state.failedReason}`] : []),
      ...(reported.fault === undefined || isFaultKnown ? [] : [reported.fault]),
    ],
    running_config_hash: running,
    ...(facts.desired ? { desired_config_hash: facts.desired.configHash } : {}),
    ...(lastGood === null ? {} : { last_known_good_config_hash: lastGood }),
    apply_desired_config: facts.accepts,
  };
};

const changeOf = (before: ConfigState, after: ConfigState): Partial<ConfigState> =>
  Object.fromEntries(
    Object.entries(after).filter(([name, value]) => before[name as keyof ConfigState] !== value),
  );
