/**
 * The certificates that agents request (the specification's CSR flow). Invariants:
 * - A caller without a certificate gets nothing but a certificate, by a token that the routes of enrollment admit.
 * - A host's policy, limits, audit and signer are those of every enrollment and renewal.
 */
import { create } from "@bufbuild/protobuf";
import type { Core } from "#functions/core.ts";
import type { AdmittedCollector } from "#functions/domain/certificate/authenticate.ts";
import { renewAdmitted } from "#functions/domain/certificate/renew.ts";
import {
  type AdmittedToken,
  createEnroll,
  type EnrollCore,
} from "#functions/domain/enrollment/enroll.ts";
import type { RunOrRefuse } from "#functions/domain/enrollment/refuse.ts";
import { checkCsr, csrFaultDetail } from "#functions/signer/csr.ts";
import type { Signer } from "#functions/signer/signer.ts";
import type { Issued } from "#functions/store/certificate/certificates.ts";
import { sha256 } from "#kit/bytes.ts";
import {
  type AgentToServer,
  type ConnectionSettingsOffers,
  ConnectionSettingsOffersSchema,
} from "#proto/gen/opamp/v1/opamp_pb.js";
import type { Origin } from "../domain/audit/audit-log.ts";
import { Problem } from "../problems.ts";
import { decodeAgentMessage, encodeAnswer, refusalMessage } from "./agent-message.ts";
import { agentReport } from "./agent-report.ts";
import { csrOf } from "./merge-message.ts";

/** The parts of core that sign certificates of agents. */
export type SigningCore = Pick<Core, "config" | "db" | "clock" | "entropy" | "cryptography"> & {
  signer: Signer | null;
};

/** Renews the certificate of an admitted agent. Throws `agent_message_invalid`, which says why. */
export const signForAgent = async (
  core: SigningCore,
  agent: { admitted: AdmittedCollector; identity: string; status: AgentToServer },
  csrPem: string,
  origin: Origin,
): Promise<ConnectionSettingsOffers> => {
  const { signer } = core;
  const endpoint = endpointOf(core);
  if (signer === null) throw refused(new Problem("signer_failed"));
  const { admitted, identity, status } = agent;
  const body = { csr_pem: csrPem, collector_version: describedBy(status).version };
  const renewed = renewAdmitted(
    { ...core, signer },
    { presented: admitted, identity },
    body,
    origin,
  );
  return settingsOf(core, endpoint, await renewed.catch(refuse));
};

/**
 * Creates the enrollment of agents by a token and an encoded message with a certificate request, whose last part names the device. Returns
 * the encoded answer, which says why no certificate is issued. Throws `client_certificate_required` for a message without a request, and
 * problems that pass.
 */
export const createAgentEnrollment = (core: EnrollCore, runOrRefuse: RunOrRefuse) => {
  const enroll = createEnroll(core, runOrRefuse);
  const settingsFor = async (token: AdmittedToken, message: AgentToServer, origin: Origin) => {
    const csrPem = csrOf(message);
    if (csrPem === undefined) throw new Problem("client_certificate_required");
    const endpoint = endpointOf(core);
    const checked = await checkCsr(csrPem, core.cryptography);
    if (!checked.ok)
      throw refused(new Problem("csr_invalid", { detail: csrFaultDetail[checked.fault] }));
    const { version, hostname, platform } = describedBy(message);
    const request = {
      csr_pem: csrPem,
      device_id: deviceIdOf(checked.csr.identity),
      hostname,
      platform,
      collector_version: version,
      agent: "otelcol" as const,
    };
    return settingsOf(core, endpoint, await enroll(token, request, origin).catch(refuse));
  };
  return async (token: AdmittedToken, bytes: Uint8Array, origin: Origin) => {
    let instanceUid = new Uint8Array();
    try {
      const message = decodeAgentMessage(bytes);
      instanceUid = message.instanceUid as Uint8Array<ArrayBuffer>;
      const connectionSettings = await settingsFor(token, message, origin);
      return encodeAnswer({ instanceUid, connectionSettings });
    } catch (error) {
      if (!(error instanceof Problem && error.code === "agent_message_invalid")) throw error;
      return refusalMessage(error, instanceUid);
    }
  };
};

const describedBy = (status: AgentToServer) =>
  agentReport(status, { valid: true, errors: [], running_config_hash: null }).collector;

const deviceIdOf = (identity: string): string => {
  const last = identity.slice(identity.lastIndexOf("/") + 1);
  try {
    return decodeURIComponent(last).slice(0, 128);
  } catch {
    return last.slice(0, 128);
  }
};

/** An agent must be told an address with its certificate. */
const endpointOf = ({ config: { advertised } }: Pick<Core, "config">): string => {
  const { ingestAddress, coreUrl } = advertised;
  if (ingestAddress) return `wss://${ingestAddress}/v1/opamp`;
  if (coreUrl) return `${coreUrl}/v1/opamp`;
  const detail = "core does not know its own address: set SVC_ADVERTISED_INGEST_ADDR";
  throw new Problem("agent_message_invalid", { detail });
};

const settingsOf = async (
  { config }: Pick<Core, "config">,
  destinationEndpoint: string,
  { certificate: { certificatePem, chainPem } }: Issued,
): Promise<ConnectionSettingsOffers> => {
  const cert = new TextEncoder().encode(certificatePem);
  return create(ConnectionSettingsOffersSchema, {
    hash: await sha256(cert),
    opamp: {
      destinationEndpoint,
      certificate: { cert, caCert: new TextEncoder().encode(chainPem) },
      heartbeatIntervalSeconds: BigInt(config.heartbeatIntervalSeconds),
    },
  });
};

/** The specification answers every request that is not granted with BadRequest, except when the agent may send it again. */
const refuse = (error: unknown): never => {
  if (!(error instanceof Problem) || mayRepeat.has(error.kind)) throw error;
  throw refused(error);
};

const mayRepeat: ReadonlySet<string> = new Set(["throttled", "timeout", "unavailable", "internal"]);

const refused = (problem: Problem): Problem =>
  new Problem("agent_message_invalid", {
    detail: `${problem.code}: ${problem.options.detail ?? "no certificate is issued"}`,
    cause: problem,
  });
