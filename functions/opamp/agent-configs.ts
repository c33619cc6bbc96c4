import type { ConfiguredCore, ReadCore } from "#functions/core.ts";
import type { Executor } from "#functions/store/database/database.ts";
import type { OpampAgentRow } from "#functions/store/opamp/agents.ts";
import {
  type AgentRemoteConfig,
  type RemoteConfigStatus,
  RemoteConfigStatuses,
} from "#proto/gen/opamp/v1/opamp_pb.js";
import type { HeartbeatReport } from "#proto/management/heartbeat.ts";

/** An agent whose row the transaction has locked, and what it reports. */
interface DecidedAgent {
  identityId: string;
  identity: string;
  state: Pick<OpampAgentRow, "appliedConfigHash">;
  accepts: boolean;
  status: RemoteConfigStatus | undefined;
  unhealthy: string | undefined;
  hasNewHealth: boolean;
}

/** The decision on an agent's config. */
export interface ConfigDecision {
  change: Partial<OpampAgentRow>;
  config: HeartbeatReport["config"];
  offer: string | null;
  lookAt: number;
}

/** Decides on the config of an agent. */
export const decideAgentConfig = async (
  _core: ConfiguredCore,
  _tx: Executor,
  { status }: DecidedAgent,
): Promise<ConfigDecision> => {
  const isFailed = status?.status === RemoteConfigStatuses.RemoteConfigStatuses_FAILED;
  const config = {
    valid: !isFailed,
    errors: isFailed ? [status.errorMessage] : [],
    running_config_hash: null,
  };
  return { change: {}, config, offer: null, lookAt: Number.POSITIVE_INFINITY };
};

/** Creates the function that returns a published config as the message for an agent. */
export const createRemoteConfigs =
  (_core: Pick<ReadCore, "db">) =>
  async (_hash: string): Promise<AgentRemoteConfig | undefined> =>
    undefined;
