import { LRUCache } from "lru-cache";
import * as v from "valibot";
import { recordAuthFailure, requireAdmitted } from "#functions/domain/certificate/authenticate.ts";
import { createHeartbeats, type HeartbeatCore } from "#functions/domain/fleet/heartbeat.ts";
import { prepareCertificateDecisions } from "#functions/store/certificate/proof-uses.ts";
import { uuidv7 } from "#kit/entropy.ts";
import type { AgentToServer } from "#proto/gen/opamp/v1/opamp_pb.js";
import { HeartbeatRequest } from "#proto/management/heartbeat.ts";
import { Problem } from "../problems.ts";
import type { AgentCaller, AgentRegister } from "./agent-register.ts";
import { agentReport } from "./agent-report.ts";
import { mergeAgentMessage } from "./merge-message.ts";

/** Agents of which a core keeps the status. */
const agentsMax = 10_000;

/** The parts of core that agents use. */
export type AgentCore = HeartbeatCore;

/** Creates the register of agents. */
export const createAgentRegister = (core: AgentCore): AgentRegister => {
  const { clock, config } = core;
  const decide = prepareCertificateDecisions(core.db);
  const accept = createHeartbeats(core);
  const states = new LRUCache<string, AgentToServer>({ max: agentsMax });
  const originOf = ({ remoteAddress }: AgentCaller) => ({ requestId: uuidv7(core), remoteAddress });
  return {
    intervalSeconds: config.heartbeatIntervalSeconds,
    async admit(caller) {
      const now = clock.now();
      const [decision] = await decide([caller.fingerprintSha256], now);
      if (decision === undefined) throw new Error("the statement returned no decision");
      if (now >= caller.notAfter + 1000) {
        await recordAuthFailure(core, { ...caller, reason: "certificate_expired" });
        throw new Problem("certificate_expired");
      }
      const admission = { ...decision, lastSentAt: null, isFirstUse: true };
      const admitted = await requireAdmitted(
        core,
        { certificate: caller },
        admission,
        originOf(caller),
      );
      return admitted.identityId;
    },
    async open(caller, identityId) {
      const report = async () => {
        const state = states.get(identityId);
        if (state === undefined) return {};
        const sentAt = clock.now();
        const request = v.parse(HeartbeatRequest, {
          ...agentReport(state),
          sent_at: new Date(sentAt).toISOString(),
          proof: "",
        });
        const certificate = { ...caller, notBefore: 0 } as never;
        await accept({ certificate, sentAt }, request, originOf(caller));
        return {};
      };
      return {
        last: states.get(identityId),
        take(message) {
          states.set(identityId, mergeAgentMessage(states.get(identityId), message));
          return report();
        },
        seen(sequenceNum = 0n) {
          const state = states.get(identityId);
          if (state && sequenceNum !== 0n) state.sequenceNum = sequenceNum;
          return report();
        },
        disconnected: async () => undefined,
        cloneSuspected: async () => undefined,
      };
    },
  };
};
