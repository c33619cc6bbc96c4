/** Decides on the configs of OpAMP agents by what is stored, and reads the texts that core sends. */
import { create } from "@bufbuild/protobuf";
import type { ConfiguredCore, ReadCore } from "#functions/core.ts";
import {
  type DesiredOtelcol,
  findDesiredOtelcol,
  findNewestConfigByHash,
} from "#functions/store/config/configs.ts";
import type { Executor } from "#functions/store/database/database.ts";
import { countedAfter } from "#functions/store/fleet/counted-time.ts";
import { type AgentRemoteConfig, AgentRemoteConfigSchema } from "#proto/gen/opamp/v1/opamp_pb.js";
import { type Actor, recordAudit } from "../domain/audit/audit-log.ts";
import { readCountingRules } from "../domain/fleet/rules.ts";
import {
  type ConfigDecision,
  type ConfigFacts,
  type ConfigState,
  decideConfig,
  isOnTrial,
} from "./remote-config.ts";

/** An agent whose row the transaction has locked, and what it reports. */
export interface DecidedAgent
  extends Omit<ConfigFacts, "now" | "trialMs" | "desired" | "wasSilent"> {
  identityId: string;
  identity: string;
  state: ConfigState;
}

/** The least time for which an agent must run a config until it counts as good. */
const trialMsMin = 60_000;

const opampActor: Actor = { type: "system", id: "opamp", display: "OpAMP server" };

/** Decides on the config of an agent, and audits it if its desired config has failed. The caller stores the change. */
export const decideAgentConfig = async (
  core: ConfiguredCore,
  tx: Executor,
  { identityId, identity, state, ...reported }: DecidedAgent,
): Promise<ConfigDecision> => {
  const desired = (await findDesiredOtelcol(tx, identityId)) ?? null;
  const now = core.clock.now();
  const trialMs = Math.max(trialMsMin, 2_000 * core.config.heartbeatIntervalSeconds);
  const facts = { ...reported, now, trialMs, desired };
  const wasSilent =
    isOnTrial(state, facts) && (await isSilent({ ...core, db: tx }, desired, facts));
  const decision = decideConfig(state, { ...facts, wasSilent });
  if (decision.hasFailed && desired !== null)
    await recordAudit(tx, core, {
      actor: opampActor,
      action: "config.fall_back",
      target: { type: "collector_identity", id: identityId },
      outcome: state.lastGoodConfigHash === null ? "failure" : "success",
      details: {
        identity,
        config_id: desired.configId,
        config_hash: desired.configHash,
        last_known_good_config_hash: state.lastGoodConfigHash,
        fault: decision.change.failedReason,
      },
    });
  return decision;
};

/** Reports whether core has received nothing for the trial's time, not counting outages of core. */
const isSilent = async (
  core: ReadCore,
  desired: DesiredOtelcol | null,
  { now, trialMs }: Pick<ConfigFacts, "now" | "trialMs">,
): Promise<boolean> => {
  const lastAt = desired?.lastHeartbeatAt?.getTime() ?? now;
  if (now - lastAt < trialMs) return false;
  const { outages } = await readCountingRules(core);
  return countedAfter(lastAt, trialMs / 1000, outages) <= now;
};

/** Texts that core keeps: many agents get few configs. */
const textsMax = 16;

/** Creates the function that returns a published config as the message for an agent, by its hash; undefined for an unpublished one. */
export const createRemoteConfigs = ({ db }: Pick<ReadCore, "db">) => {
  const known = new Map<string, AgentRemoteConfig>();
  return async (hash: string): Promise<AgentRemoteConfig | undefined> => {
    const kept = known.get(hash);
    if (kept !== undefined) return kept;
    const config = await findNewestConfigByHash(db, hash);
    if (config === undefined) return undefined;
    const body = new TextEncoder().encode(config.yaml);
    const message = create(AgentRemoteConfigSchema, {
      config: { configMap: { "collector.yaml": { body, contentType: "text/yaml" } } },
      configHash: Uint8Array.fromHex(hash),
    });
    known.set(hash, message);
    const [oldest] = known.keys();
    if (known.size > textsMax && oldest !== undefined) known.delete(oldest);
    return message;
  };
};
