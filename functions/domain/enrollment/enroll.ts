import type { Attestation } from "../../../drizzle/schema/enrollment.ts";
import { pooledEntropy } from "../../../kit/entropy.ts";
import type { EnrollRequest } from "../../../proto/management/enroll.ts";
import type { Core } from "../../core.ts";
import { checkCsr, csrFaultDetail } from "../../signer/csr.ts";
import type { IssuedCertificate, Signer } from "../../signer/signer.ts";
import { deleteReservations } from "../../store/enrollment/enrollments.ts";
import { createTokenFinder } from "../../store/enrollment/policies.ts";
import type { Origin } from "../audit/audit-log.ts";
import type { Issued } from "../certificate/issued.ts";
import { createAdmitWorkload, isJwt, type WorkloadCore } from "./admit-workload.ts";
import { isWellFormedToken, tokenPrefixCharacters } from "./bootstrap-token.ts";
import {
  EnrollmentRefusal,
  type RefusalCore,
  type RefusedUse,
  type RunOrRefuse,
} from "./refuse.ts";
import { checkTokenUse, type EnrollmentRequest, type Reserved } from "./reserve.ts";
import { createSteps, type EnrollmentSteps } from "./steps.ts";
import { enforce, identityRules } from "./use-rules.ts";

/** The parts of core that enrollment uses. */
export type EnrollCore = RefusalCore & Pick<Core, "config" | "cryptography"> & { signer: Signer };

/** A token that is neither revoked nor expired, under a policy that is not frozen, from an address that both allow. */
export interface AdmittedToken {
  tokenId: string;
  tokenPrefix: string;
  policyId: string;
  /** Of a service account token. */
  attestation: Attestation | null;
}

/** Admits the token that a caller presents, null for none. */
export type AdmitToken = (rawToken: string | null, origin: Origin) => Promise<AdmittedToken>;

/**
 * Creates the check of a bootstrap token, or of a service account token, before the request's body is read. The check consumes no use; the
 * reservation and the record repeat it. Throws 401 `token_invalid`, 403 `policy_frozen` or `source_not_allowed`, 429 `throttled`, and 502
 * `issuer_unavailable`.
 */
export const createAdmitToken = (core: WorkloadCore, runOrRefuse: RunOrRefuse): AdmitToken => {
  // Concurrent requests share look-ups: the results are checked again under the policy's lock.
  const findToken = createTokenFinder(core.db);
  const admitWorkload = createAdmitWorkload(core);
  return (rawToken, origin) => {
    const use: RefusedUse = {
      tokenId: null,
      tokenPrefix: null,
      policyId: null,
      identity: null,
      attestation: null,
    };
    return runOrRefuse(use, origin, async () => {
      const isWorkload = rawToken !== null && isJwt(rawToken);
      if (rawToken === null || !(isWorkload || isWellFormedToken(rawToken))) {
        throw new EnrollmentRefusal("token_invalid", {
          reason: rawToken === null ? "token_missing" : "token_malformed",
        });
      }
      if (!isWorkload) use.tokenPrefix = rawToken.slice(0, tokenPrefixCharacters);
      const found = isWorkload
        ? await admitWorkload(rawToken, use)
        : await findToken(await core.cryptography.sha256Hex(rawToken));
      use.tokenId = found?.token.id ?? null;
      use.policyId = found?.policy.id ?? null;
      use.tokenPrefix ??= found?.token.tokenPrefix ?? null;
      const { token, policy } = checkTokenUse(
        found?.policy,
        found?.token,
        origin.remoteAddress,
        core.clock.now(),
      );
      const { id: tokenId, tokenPrefix, attestation } = token;
      return { tokenId, tokenPrefix, policyId: policy.id, attestation };
    });
  };
};

type Reservation = Extract<Reserved, { kind: "reserved" }>;

/** Enrolls a host by a token that was admitted. */
export type Enroll = (token: AdmittedToken, body: EnrollRequest, origin: Origin) => Promise<Issued>;

/**
 * Creates the enrollment of hosts (docs/enroll.md): reserve a use under every limit, sign outside any transaction, record. A crash
 * between the steps leaves a reservation that expires after 60 s and a certificate without a row, which core rejects. Refusals are audited; failed
 * uses count against the remote address. Concurrent enrollments share transactions.
 */
export const createEnroll = (core: EnrollCore, runOrRefuse: RunOrRefuse): Enroll => {
  const steps = createSteps({ ...core, ids: pooledEntropy(core.entropy) });
  return (token, body, origin) => {
    const use: RefusedUse = { ...token, identity: body.device_id };
    return runOrRefuse(use, origin, async () => {
      const request = await validateRequest(core, body, origin);
      use.identity = request.identity;

      const reserved = await steps.reserve({
        request,
        tokenId: token.tokenId,
        policyId: token.policyId,
      });
      if (reserved.kind === "issued") {
        core.observe.enroll("retried");
        return reserved;
      }

      const enrolled = await signAndRecord(core, steps, { request, reserved, origin });
      core.observe.enroll("issued");
      return enrolled;
    });
  };
};

/** Releases the reservation when either step fails, so that the host need not wait for it to expire. */
const signAndRecord = async (
  core: EnrollCore,
  steps: EnrollmentSteps,
  {
    request,
    reserved,
    origin,
  }: { request: EnrollmentRequest; reserved: Reservation; origin: Origin },
): Promise<Issued> => {
  const { reservation, policy } = reserved;
  const now = core.clock.now();
  const serial = Uint8Array.fromHex(reservation.serialNumber);
  try {
    const issued = await sign(core.signer, request, {
      serial,
      now,
      ttlSeconds: policy.certificateTtlSeconds,
    });
    return await steps.record({ request, reservation, issued, now, origin });
  } catch (error) {
    await deleteReservations(core.db, [reservation.id]);
    throw error;
  }
};

/** Turns any failure of the signer into `signer_failed`; only the log has its cause. */
const sign = async (
  signer: Signer,
  { csrPem, spki, identity }: EnrollmentRequest,
  terms: { serial: Uint8Array; now: number; ttlSeconds: number },
): Promise<IssuedCertificate> => {
  try {
    return await signer.sign({ csrPem, spki, identity, ...terms });
  } catch (cause) {
    throw new EnrollmentRefusal("signer_failed", { cause });
  }
};

const validateRequest = async (
  core: EnrollCore,
  body: EnrollRequest,
  origin: Origin,
): Promise<EnrollmentRequest> => {
  const checked = await checkCsr(body.csr_pem, core.cryptography);
  if (!checked.ok)
    throw new EnrollmentRefusal("csr_invalid", {
      reason: checked.fault,
      detail: csrFaultDetail[checked.fault],
    });
  const { identity, spki } = checked.csr;
  enforce(identityRules, { identity, identityBytesMax: core.config.hostIdBytesMax });
  return {
    identity,
    spki,
    spkiSha256: Uint8Array.fromHex(await core.cryptography.sha256Hex(spki)),
    csrPem: body.csr_pem,
    deviceId: body.device_id,
    hostname: body.hostname ?? null,
    platform: body.platform,
    collectorVersion: body.collector_version,
    remoteAddress: origin.remoteAddress,
  };
};
