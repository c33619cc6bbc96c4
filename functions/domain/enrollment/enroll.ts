import { sha256 } from "../../../kit/bytes.ts";
import type { EnrollRequest } from "../../../proto/management/enroll.ts";
import type { Core } from "../../core.ts";
import { checkCsr, csrFaultDetail } from "../../signer/csr.ts";
import type { IssuedCertificate, Signer } from "../../signer/signer.ts";
import { deleteReservations } from "../../store/reservations.ts";
import type { Origin } from "../audit/record.ts";
import type { Issued } from "../certificate/issued.ts";
import type { AdmittedToken } from "./admit-token.ts";
import { createRecord } from "./record.ts";
import { Refusal, type RefusedUse, type RefusingCore, refusing } from "./refuse.ts";
import { createReserve, type EnrollmentRequest } from "./reserve.ts";

/** What enrollment needs of core. */
export type EnrollCore = RefusingCore & Pick<Core, "config" | "cryptography"> & { signer: Signer };

/** Enrolls a host by a token that was admitted. */
export type Enroll = (token: AdmittedToken, body: EnrollRequest, origin: Origin) => Promise<Issued>;

/**
 * Enrolls hosts (contract, section 3, "Enroll"): reserve a place under every limit, sign outside any transaction, record. A
 * crash between the steps leaves a reservation that runs out after 60 s and a certificate that no row makes valid. Refusals are
 * audited; failed uses count against the remote address. Concurrent enrollments share the transactions of both steps.
 */
export const createEnroll = (core: EnrollCore): Enroll => {
  const steps: Steps = { reserve: createReserve(core), record: createRecord(core) };
  return (token, body, origin) => {
    const use: RefusedUse = { ...token, identity: null };
    return refusing(core, use, origin, async () => {
      const request = await checkedRequest(core, body, origin);
      use.identity = request.identity;
      const { enrolled, outcome } = await attempt(core, steps, token, request, origin);
      core.observe.enroll(outcome);
      return enrolled;
    });
  };
};

interface Steps {
  reserve: ReturnType<typeof createReserve>;
  record: ReturnType<typeof createRecord>;
}

const attempt = async (
  core: EnrollCore,
  { reserve, record }: Steps,
  { tokenId, policyId }: AdmittedToken,
  request: EnrollmentRequest,
  origin: Origin,
): Promise<{ enrolled: Issued; outcome: "issued" | "retried" }> => {
  const reserved = await reserve({ request, tokenId, policyId });
  if (reserved.kind === "issued") return { enrolled: reserved, outcome: "retried" };

  const { reservation } = reserved;
  const now = core.clock.now();
  try {
    const terms = {
      serial: Uint8Array.fromHex(reservation.serialNumber),
      now,
      ttlSeconds: reserved.policy.certificateTtlSeconds,
    };
    const issued = await sign(core.signer, request, terms);
    return { enrolled: await record({ request, reservation, issued, now, origin }), outcome: "issued" };
  } catch (error) {
    await deleteReservations(core.db, [reservation.id]);
    throw error;
  }
};

/** Whatever goes wrong in a signer is its failure, and only the log sees why. */
const sign = async (
  signer: Signer,
  { csrPem, spki, identity }: EnrollmentRequest,
  terms: { serial: Uint8Array; now: number; ttlSeconds: number },
): Promise<IssuedCertificate> => {
  try {
    return await signer.sign({ csrPem, spki, identity, ...terms });
  } catch (cause) {
    throw new Refusal("signer_failed", { cause });
  }
};

const checkedRequest = async (core: EnrollCore, body: EnrollRequest, origin: Origin): Promise<EnrollmentRequest> => {
  const checked = await checkCsr(body.csr_pem, core.cryptography);
  if (!checked.ok) throw new Refusal("csr_invalid", { reason: checked.fault, detail: csrFaultDetail[checked.fault] });
  const { identity, spki } = checked.csr;
  if (identity.length > core.config.hostIdBytesMax) {
    const detail = `The identity is longer than ${core.config.hostIdBytesMax} bytes`;
    throw new Refusal("identity_not_allowed", { reason: "identity_too_long", detail });
  }
  return {
    identity,
    spki,
    spkiSha256: await sha256(new Uint8Array(spki)),
    csrPem: body.csr_pem,
    deviceId: body.device_id,
    hostname: body.hostname ?? null,
    platform: body.platform,
    collectorVersion: body.collector_version,
    remoteAddress: origin.remoteAddress,
  };
};
