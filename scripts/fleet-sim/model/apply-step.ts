import * as v from "valibot";
import type { ProvenCollector } from "#functions/domain/certificate/authenticate.ts";
import { markUsed, recordAuthFailure } from "#functions/domain/certificate/authenticate.ts";
import { revokeCertificate, revokeIdentity } from "#functions/domain/certificate/identities.ts";
import { assignConfig } from "#functions/domain/config/desired-config.ts";
import { createAgentSession } from "#functions/opamp/agent-session.ts";
import { Problem } from "#functions/problems.ts";
import { insertCertificate } from "#functions/store/certificate/certificates.ts";
import { updateIdentity } from "#functions/store/certificate/identities.ts";
import { HeartbeatRequest } from "#proto/management/heartbeat.ts";
import { people } from "#scripts/lab/people.ts";
import type { Plan } from "../scenario/plan.ts";
import { composeReport, type Step } from "../scenario/steps.ts";
import { certificateOf, issueCertificate, type ModelHost } from "./model-host.ts";

/** The dependencies of steps besides the host's own core. */
export interface ApplyContext {
  plan: Plan;
  /** Returns the id of a config of the plan by its hash. */
  configId(hash: string): string;
  forward(identity: string, at: number): Promise<void>;
}

/** The origin of the model's requests. */
const modelOrigin = { requestId: "simulation", remoteAddress: "192.0.2.1" };

/** The admin of the model, in whose name changes are made. */
export const modelAdmin = { caller: people.admin, origin: modelOrigin };

/** Applies a step after the enrollment by core's own verbs. Throws when core's response to a heartbeat is not the expected one. */
export const applyStep = async (
  { plan, configId, forward }: ApplyContext,
  host: ModelHost,
  step: Step,
): Promise<unknown> => {
  const { core, identityId } = host;
  core.clock.time = step.at;
  switch (step.kind) {
    case "enroll":
    case "note":
      return;
    case "renew": {
      const of = { predecessorId: certificateOf(host, step.certificate).id, tokenId: null };
      await insertCertificate(core.db, issueCertificate(plan, host, of));
      return updateIdentity(core.db, identityId, { collectorVersion: host.host.version });
    }
    case "heartbeat":
      return heartbeat(host, step);
    case "forward": {
      const certificate = certificateOf(host, step.certificate);
      if (!certificate.used) await markUsed(core, [{ certificateId: certificate.id, identityId }]);
      certificate.used = true;
      return forward(host.host.identity, step.at);
    }
    case "revoke_identity": {
      const { reasonCode } = step;
      return revokeIdentity(core, modelAdmin, { identityId, reasonCode });
    }
    case "revoke_certificate": {
      const { reasonCode } = step;
      const certificateId = certificateOf(host, step.certificate).id;
      return revokeCertificate(core, modelAdmin, { certificateId, reasonCode });
    }
    case "assign":
      return assignConfig(core, modelAdmin, {
        identityId,
        configId: configId(plan.configs[host.host.agent][step.config].hash),
      });
  }
};

const heartbeat = async (host: ModelHost, step: Step & { kind: "heartbeat" }): Promise<void> => {
  const outcome = await outcomeOf(host, step);
  if (outcome !== step.expected)
    throw new Error(`${host.host.deviceId}: a heartbeat was ${outcome}, not ${step.expected}`);
};

/** Exchanges messages as an agent that polls does, without TLS. */
const poll = async (host: ModelHost, step: Step & { kind: "heartbeat" }): Promise<string> => {
  const { core, agent, register } = host;
  const certificate = certificateOf(host, step.certificate);
  const caller = {
    identity: host.host.identity,
    fingerprintSha256: certificate.fingerprint,
    notAfter: certificate.notAfter.getTime(),
    remoteAddress: modelOrigin.remoteAddress,
  };
  try {
    const file = await register.open(caller, await register.admit(caller), { isPoll: true });
    const { receive } = createAgentSession({
      ...core,
      identity: caller.identity,
      file,
      turns: { take: () => true, waitMs: () => 0 },
      isPoll: true,
      onFailure: (error) => {
        throw error;
      },
    });
    await agent.poll(step.status, async (message) => {
      const { answer, fault } = await receive(message);
      if (fault) throw fault;
      return answer;
    });
    certificate.used = true;
    return "accepted";
  } catch (error) {
    if (error instanceof Problem) return error.code;
    throw error;
  }
};

const outcomeOf = async (host: ModelHost, step: Step & { kind: "heartbeat" }): Promise<string> => {
  const { core, takeHeartbeat } = host;
  const { identity, agent } = host.host;
  if (agent === "otelcol") return poll(host, step);
  // Core finds these before it reads the certificate's row: see `proveCollector`.
  if (step.expected === "clock_skew" || step.expected === "proof_invalid") {
    await recordAuthFailure(core, { identity, reason: step.expected });
    return step.expected;
  }
  const certificate = certificateOf(host, step.certificate);
  const sentAt = step.at + step.skew;
  const report = composeReport(host.host, step.at, step.status);
  const body = { ...report, sent_at: new Date(sentAt).toISOString(), proof: "" };
  const caller: ProvenCollector = {
    certificate: {
      identity,
      fingerprintSha256: certificate.fingerprint,
      serialNumber: "",
      spki: new Uint8Array(),
      proofAlgorithm: "ecdsa-sha256",
      notBefore: certificate.notBefore.getTime(),
      notAfter: certificate.notAfter.getTime(),
    },
    sentAt,
  };
  try {
    await takeHeartbeat(caller, v.parse(HeartbeatRequest, body), modelOrigin);
    certificate.used = true;
    return "accepted";
  } catch (error) {
    if (error instanceof Problem) return error.code;
    throw error;
  }
};
