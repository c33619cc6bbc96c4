/**
 * Where agents that speak OpAMP are stored. Invariants:
 * - What an agent has reported is in `opamp_agent` alone; a file keeps the numbers that decide whether a heartbeat says anything new.
 * - Changes of one agent are made one after the other, under the lock of its row.
 * - A report that could not be stored is stored with the next heartbeat: its digest is not that of the host's last report.
 */
import { createAgentReports } from "#functions/domain/fleet/agent-reports.ts";
import { auditClone, type HeartbeatCore } from "#functions/domain/fleet/heartbeat.ts";
import { createCertificateAdmission } from "#functions/domain/fleet/status.ts";
import {
  createSequenceRecorder,
  findAgent,
  type OpampAgentRow,
} from "#functions/store/opamp/agents.ts";
import { uuidv7 } from "#kit/entropy.ts";
import type { AgentToServer } from "#proto/gen/opamp/v1/opamp_pb.js";
import { createRemoteConfigs } from "./agent-configs.ts";
import type { AgentOffer, AgentRegister } from "./agent-register.ts";
import { type SigningCore, signForAgent } from "./connection-settings.ts";
import { statusOf, type UpdatedAgent, updateAgent } from "./update-agent.ts";

/** The parts of core that agents use. */
export type AgentCore = HeartbeatCore & SigningCore;

/** What decides whether a heartbeat says anything new. A socket keeps no more of its agent. */
const decidedOf = ({ reportDigest, desiredConfigHash, lookAt, restartAskedAt }: OpampAgentRow) => ({
  reportDigest,
  desiredConfigHash,
  lookAt,
  restartAskedAt,
});

/** Creates the register of agents. */
export const createAgentRegister = (core: AgentCore): AgentRegister => {
  const { db, clock, config } = core;
  const admit = createCertificateAdmission(core, "otelcol", { recordsUse: true });
  const reports = createAgentReports(core);
  const recordSequence = createSequenceRecorder(db);
  const remoteConfigOf = createRemoteConfigs(core);

  const open: AgentRegister["open"] = async (caller, identityId, { isPoll }) => {
    const row = await findAgent(db, identityId);
    let known = row && decidedOf(row);
    let mayLackOffer = !isPoll;
    const origin = () => ({ requestId: uuidv7(core), remoteAddress: caller.remoteAddress });

    const auditedClone = async (reason: string) => {
      const { certificateId } = await admit(caller, origin);
      const { identity } = caller;
      await auditClone(core, { identity, identityId, certificateId, reason }, origin());
    };
    /** Counts the heartbeat, and stores the report if it is another. */
    const record = async ({ row: { reportDigest: digest }, report }: UpdatedAgent) => {
      const { remoteAddress } = caller;
      if (known?.reportDigest === digest) {
        const { outcome } = await reports.seen({ identityId, remoteAddress, digest });
        if (outcome === "recorded") return;
      }
      const { certificateId } = await admit(caller, origin);
      await reports.store({ identityId, certificateId, remoteAddress, digest }, report);
    };
    const update = async (message?: AgentToServer): Promise<AgentOffer> => {
      const isReconnected = mayLackOffer;
      // Until this one is returned.
      mayLackOffer = true;
      const updated = await db.transaction((tx) =>
        updateAgent(core, tx, {
          identityId,
          identity: caller.identity,
          message,
          isPoll,
          isReconnected,
        }),
      );
      if (updated === undefined) return message ? { needsFullStatus: true } : {};
      await record(updated);
      known = decidedOf(updated.row);
      if (updated.isClone) await auditedClone("two agents report with one certificate in turn");
      const remoteConfig = updated.offer === null ? undefined : await remoteConfigOf(updated.offer);
      mayLackOffer = false;
      const { isUidTaken, needsAvailableComponents, restart } = updated;
      return {
        isUidTaken,
        needsAvailableComponents,
        restart,
        ...(remoteConfig && { remoteConfig }),
      };
    };
    return {
      last: row && {
        instanceUid: row.instanceUid,
        sequenceNum: row.sequenceNum,
        capabilities: statusOf(row).capabilities,
      },
      take: update,
      review: () => update(),
      async seen(sequenceNum = 0n) {
        if (sequenceNum !== 0n) await recordSequence({ identityId, sequenceNum });
        const {
          reportDigest: digest = null,
          desiredConfigHash,
          lookAt,
          restartAskedAt,
        } = known ?? {};
        const isDue = lookAt && clock.now() >= lookAt.getTime();
        if (digest === null || isDue || restartAskedAt) return update();
        const { remoteAddress } = caller;
        const { outcome, desiredConfig } = await reports.seen({
          identityId,
          remoteAddress,
          digest,
        });
        const isSame = (desiredConfig?.configHash ?? null) === desiredConfigHash;
        return outcome === "recorded" && isSame ? {} : update();
      },
      cloneSuspected: auditedClone,
      async sign(csrPem) {
        const status = statusOf((await findAgent(db, identityId)) ?? { state: new Uint8Array() });
        const agent = { ...caller, admitted: await admit(caller, origin), status };
        return signForAgent(core, agent, csrPem, origin());
      },
    };
  };
  return {
    intervalSeconds: config.heartbeatIntervalSeconds,
    admit: async (caller) => {
      const origin = () => ({ requestId: uuidv7(core), remoteAddress: caller.remoteAddress });
      return (await admit(caller, origin)).identityId;
    },
    open,
  };
};
