import * as v from "valibot";
import type { ProvenCollector } from "../../../functions/domain/certificate/authenticate.ts";
import { markUsed, recordAuthFailure } from "../../../functions/domain/certificate/authenticate.ts";
import { revokeCertificate, revokeIdentity } from "../../../functions/domain/certificate/identities.ts";
import { assignConfig } from "../../../functions/domain/config/desired-config.ts";
import { Problem } from "../../../functions/problems.ts";
import { insertCertificate } from "../../../functions/store/certificates.ts";
import { updateCollectorVersion } from "../../../functions/store/identities.ts";
import { HeartbeatRequest } from "../../../proto/management/heartbeat.ts";
import type { Plan } from "../scenario/plan.ts";
import { composeReport, type Step } from "../scenario/steps.ts";
import { ageCertificates } from "./age-certificates.ts";
import { modelOperator, modelOrigin } from "./model-core.ts";
import { certificateOf, issueCertificate, type ModelHost } from "./model-host.ts";

/** What steps need beside the host's own core. */
export interface ApplyMeans {
  plan: Plan;
  /** The config that is assigned. */
  configId: string;
  forward(identity: string, at: number): Promise<void>;
}

/** Does to the host's core what a step does; its enrollment is done. Throws when a heartbeat is answered otherwise than expected. */
export const applyStep = async (
  { plan, configId, forward }: ApplyMeans,
  host: ModelHost,
  step: Step,
): Promise<unknown> => {
  const { core, identityId } = host;
  core.clock.moment = step.at;
  switch (step.kind) {
    case "enroll":
    case "note":
      return;
    case "renew": {
      const predecessorId = certificateOf(host, step.certificate).id;
      await insertCertificate(core.db, issueCertificate(plan, host, { predecessorId, tokenId: null }));
      return updateCollectorVersion(core.db, identityId, host.host.version);
    }
    case "heartbeat": {
      const outcome = await heartbeat(host, step);
      if (outcome !== step.expected)
        throw new Error(`${host.host.deviceId}: a heartbeat was ${outcome}, not ${step.expected}`);
      return;
    }
    case "forward": {
      const certificate = certificateOf(host, step.certificate);
      if (!certificate.used) await markUsed(core, { certificateId: certificate.id, identityId });
      certificate.used = true;
      return forward(host.host.identity, step.at);
    }
    case "revoke_identity":
      return revokeIdentity(core, modelOperator, { identityId, reasonCode: step.reasonCode }, modelOrigin);
    case "revoke_certificate": {
      const certificateId = certificateOf(host, step.certificate).id;
      return revokeCertificate(core, modelOperator, { certificateId, reasonCode: step.reasonCode }, modelOrigin);
    }
    case "assign":
      return assignConfig(core, modelOperator, { identityId, configId }, modelOrigin);
    case "age":
      return ageCertificates(core.db, [host.host.identity], step.at);
  }
};

const heartbeat = async (host: ModelHost, step: Step & { kind: "heartbeat" }): Promise<string> => {
  const { core, takeHeartbeat } = host;
  const { identity } = host.host;
  // Found before core looks at the certificate's row: see `proveCollector`.
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
