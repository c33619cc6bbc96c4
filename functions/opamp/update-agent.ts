/** Decides what a message of an agent, or the time, changes: what core keeps of the agent, and the report of its host. */
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import type { ConfiguredCore } from "#functions/core.ts";
import { fleetThresholds } from "#functions/domain/fleet/thresholds.ts";
import type { Executor } from "#functions/store/database/database.ts";
import { digestKey } from "#functions/store/fleet/heartbeat-reports.ts";
import {
  isInstanceUsed,
  lockAgent,
  type OpampAgentRow,
  saveAgent,
} from "#functions/store/opamp/agents.ts";
import { equalBytes, sha256 } from "#kit/bytes.ts";
import {
  AgentCapabilities,
  type AgentToServer,
  AgentToServerSchema,
} from "#proto/gen/opamp/v1/opamp_pb.js";
import type { HostReport } from "#proto/management/heartbeat.ts";
import { Problem } from "../problems.ts";
import { decideAgentConfig } from "./agent-configs.ts";
import { agentReport, namesError, unhealthyReason } from "./agent-report.ts";
import { effectiveConfigText } from "./effective-config.ts";
import { mergeAgentMessage } from "./merge-message.ts";
import { type ConfigDecision, noConfigState } from "./remote-config.ts";

/** An agent, and what it has just sent; without a message, time has passed or core has something for it. */
interface AgentUpdate {
  identityId: string;
  identity: string;
  message: AgentToServer | undefined;
  /** Core has the numbers of all polls; of a socket, those of messages with news. */
  isPoll: boolean;
  /** Whether the agent may have missed what core sent last, as it has reconnected. */
  isReconnected: boolean;
}

/** What core keeps of an agent from now on, and what follows. */
export interface UpdatedAgent {
  row: OpampAgentRow & { reportDigest: bigint };
  report: HostReport;
  /** The hash of the config to send. */
  offer: string | null;
  needsAvailableComponents: boolean;
  isUidTaken: boolean;
  /** Two instances report with this identity in turn. */
  isClone: boolean;
  restart: boolean;
}

/** The most bytes of an agent's status that core keeps. */
const stateBytesMax = 64 * 1024;
/** The most components whose names core keeps. */
const componentsMax = 2_000;
/** Two instances that report in turn within this time are a suspected clone. */
const cloneMs = 10 * 60_000;
/** The largest sequence number that a bigint of the database holds. */
const sequenceMax = 2n ** 63n - 1n;

/**
 * Updates an agent in a transaction. Returns undefined while core knows nothing of it, and for a part of the status of another instance. Throws
 * `payload_too_large`.
 */
export const updateAgent = async (
  core: ConfiguredCore,
  tx: Executor,
  { identityId, identity, message, isPoll, isReconnected }: AgentUpdate,
): Promise<UpdatedAgent | undefined> => {
  const before = await lockAgent(tx, identityId);
  if (message && isPartOfAnother(before, message)) return undefined;
  const known = before && statusOf(before);
  const status = message ? mergeAgentMessage(known, message, core.clock.now()) : known;
  if (status === undefined) return undefined;
  const sequenceNum = message ? sequenceOf(message) : 0n;
  const restart = isRestartDue(before, status);
  const decision = await decideAgentConfig(core, tx, {
    identityId,
    identity,
    state: before ?? newAgent,
    ...factsOf(status, message, known),
    // A message comes again when its answer was lost.
    mayLackOffer: isReconnected || (sequenceNum !== 0n && sequenceNum === before?.sequenceNum),
    hasCommand: restart,
  });
  const report = agentReport(status, reportedConfig(decision));
  const { instanceUid } = status;
  const instance = instanceOf(before, { instanceUid, sequenceNum, isPoll }, core.clock.now());
  const isClone = instance.isClone || (!instance.isNew && isOlderStart(message, known));
  const row = {
    ...(before ?? newAgent),
    ...instance.change,
    ...statusChange(status, message),
    ...decision.change,
    identityId,
    restartAskedAt: null,
    reportDigest: digestKey(await sha256(new TextEncoder().encode(JSON.stringify(report)))),
    desiredConfigHash: report.config.desired_config_hash ?? null,
    lookAt: Number.isFinite(decision.lookAt) ? new Date(decision.lookAt) : null,
    updatedAt: new Date(core.clock.now()),
  };
  await saveAgent(tx, row);
  return {
    row,
    report,
    offer: decision.offer,
    restart,
    isClone,
    isUidTaken: instance.isNew
      ? await isInstanceUsed(tx, { ...row, since: staleBefore(core) })
      : isClone,
    needsAvailableComponents: lacksComponents(row, status),
  };
};

/** Returns what an agent reports about its config. */
const factsOf = (
  status: AgentToServer,
  message: AgentToServer | undefined,
  known: AgentToServer | undefined,
) => ({
  accepts: hasCapability(status, AgentCapabilities.AgentCapabilities_AcceptsRemoteConfig),
  status: status.remoteConfigStatus,
  // That it stops is no fault of its config.
  unhealthy: unhealthyReason((message?.agentDisconnect ? known : status)?.health),
  hasNewError: message?.health !== undefined && namesError(message.health),
});

const newAgent = {
  sequenceNum: 0n,
  effectiveConfig: null,
  availableComponents: null,
  previousInstanceUid: null,
  previousInstanceAt: null,
  previousSequenceNum: null,
  ...noConfigState,
};

/** Returns what an agent has reported, without its effective config. */
export const statusOf = ({ state }: Pick<OpampAgentRow, "state">): AgentToServer =>
  fromBinary(AgentToServerSchema, state);

const hasCapability = ({ capabilities }: AgentToServer, capability: AgentCapabilities): boolean =>
  (capabilities & BigInt(capability)) !== 0n;

const isRestartDue = (before: OpampAgentRow | undefined, status: AgentToServer): boolean =>
  (before?.restartAskedAt ?? null) !== null &&
  hasCapability(status, AgentCapabilities.AgentCapabilities_AcceptsRestartCommand);

const reportedConfig = ({ config }: ConfigDecision): HostReport["config"] => ({
  ...config,
  errors: [...config.errors],
});

const staleBefore = ({ config, clock }: ConfiguredCore): Date =>
  new Date(clock.now() - fleetThresholds(config).staleAfterSeconds * 1000);

const startOf = (status: AgentToServer | undefined): bigint =>
  status?.health?.startTimeUnixNano ?? 0n;

/** Reports whether a process reports after one that was started later: both are alive. */
const isOlderStart = (message: AgentToServer | undefined, known: AgentToServer | undefined) =>
  startOf(message) !== 0n && startOf(message) < startOf(known);

const isPartOfAnother = (
  before: OpampAgentRow | undefined,
  { instanceUid, agentDescription }: AgentToServer,
): boolean =>
  before !== undefined &&
  agentDescription === undefined &&
  !equalBytes(before.instanceUid, instanceUid);

/** Returns the number of a message as the database holds it; 0 for none. */
const sequenceOf = ({ sequenceNum }: AgentToServer): bigint =>
  sequenceNum > sequenceMax ? sequenceMax : sequenceNum;

/**
 * Decides whether another instance reports than before, and whether the one before it has come back: with its `instance_uid` or, if two that
 * poll have the same, with the number after its last.
 */
const instanceOf = (
  before: OpampAgentRow | undefined,
  {
    instanceUid,
    sequenceNum,
    isPoll,
  }: Pick<OpampAgentRow, "instanceUid" | "sequenceNum"> & Pick<AgentUpdate, "isPoll">,
  now: number,
) => {
  const isNew = before === undefined || !equalBytes(before.instanceUid, instanceUid);
  const {
    previousInstanceUid = null,
    previousInstanceAt = null,
    previousSequenceNum = null,
  } = before ?? {};
  const isBack = isNew
    ? previousInstanceUid !== null && equalBytes(previousInstanceUid, instanceUid)
    : isPoll &&
      previousSequenceNum !== null &&
      sequenceNum === previousSequenceNum + 1n &&
      sequenceNum !== before.sequenceNum + 1n;
  const isRestart = isPoll && !isNew && sequenceNum !== 0n && sequenceNum < before.sequenceNum;
  const since = { previousInstanceAt: before ? new Date(now) : null };
  return {
    isNew,
    isClone: isBack && now - (previousInstanceAt?.getTime() ?? 0) <= cloneMs,
    change: {
      instanceUid,
      ...(isNew && {
        ...since,
        previousInstanceUid: before?.instanceUid ?? null,
        previousSequenceNum: null,
      }),
      ...(isRestart && { ...since, previousSequenceNum: before.sequenceNum }),
      ...(sequenceNum !== 0n && { sequenceNum }),
    },
  };
};

/** Returns the columns that a message changes. */
const statusChange = (status: AgentToServer, message: AgentToServer | undefined) => {
  const components = message?.availableComponents && componentNames(message.availableComponents);
  return {
    state: encodeState(status),
    ...(message?.effectiveConfig && {
      effectiveConfig: effectiveConfigText(message.effectiveConfig),
    }),
    ...(components && components.length > 0 && { availableComponents: components }),
  };
};

type Components = NonNullable<AgentToServer["availableComponents"]>;

const componentNames = ({ components }: Components): string[] =>
  Object.entries(components)
    .flatMap(([group, { subComponentMap }]) =>
      Object.keys(subComponentMap).map((type) => `${group}.${type}`),
    )
    .filter((name) => /^[\w./-]{1,200}$/.test(name))
    .slice(0, componentsMax);

/** Reports whether the agent has told the hash of its components, and core does not have these. */
const lacksComponents = (
  { availableComponents }: Pick<OpampAgentRow, "availableComponents">,
  status: AgentToServer,
): boolean => status.availableComponents !== undefined && availableComponents === null;

/** Encodes a status without what has columns of its own. The health of components is the first to go when it is too large. */
const encodeState = (status: AgentToServer): Uint8Array => {
  const { health, availableComponents } = status;
  const kept = {
    ...status,
    effectiveConfig: undefined,
    availableComponents: availableComponents && { ...availableComponents, components: {} },
  };
  for (const each of [health, health && { ...health, componentHealthMap: {}, attributes: [] }]) {
    const state = toBinary(
      AgentToServerSchema,
      create(AgentToServerSchema, { ...kept, health: each }),
    );
    if (state.length <= stateBytesMax) return state;
  }
  throw new Problem("payload_too_large", {
    detail: "the agent describes itself with more than 64 KiB",
  });
};
