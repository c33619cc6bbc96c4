import type { EnrollRequest } from "../../../proto/management/enroll.ts";
import type { Core } from "../../core.ts";
import { sha256 } from "../../kit/bytes.ts";
import { uuidv7 } from "../../kit/entropy.ts";
import { checkCsr, csrFaultDetail } from "../../signer/csr.ts";
import { type IssuedCertificate, type Signer, SignerFault } from "../../signer/signer.ts";
import { insertCertificate, updateActiveReplaced } from "../../store/certificates.ts";
import type { Executor } from "../../store/database.ts";
import { insertIdentity, lockIdentityByName, updateIdentityReenrolled } from "../../store/identities.ts";
import { incrementEnrollmentCount, lockPolicy } from "../../store/policies.ts";
import { deleteReservation, type ReservationRow } from "../../store/reservations.ts";
import { incrementTokenUse, lockToken } from "../../store/tokens.ts";
import { type Origin, recordAudit } from "../audit/record.ts";
import { type Issued, issuedBefore, issuedRow } from "../certificate/issued.ts";
import type { AdmittedToken } from "./admit-token.ts";
import { Refusal, type RefusedUse, type RefusingCore, refusing } from "./refuse.ts";
import { admitAgain, admitUse, type EnrollmentRequest, reserve } from "./reserve.ts";

/** What enrollment needs of core. */
export type EnrollCore = RefusingCore & Pick<Core, "config" | "cryptography"> & { signer: Signer };

/**
 * Enrolls a host (contract, section 3, "Enroll"): reserve a place under every limit, sign outside any transaction, record. A
 * crash between the steps leaves a reservation that runs out after 60 s and a certificate that no row makes valid. Refusals are
 * audited; failed uses count against the remote address.
 */
export const enroll = (
  core: EnrollCore,
  token: AdmittedToken,
  body: EnrollRequest,
  origin: Origin,
): Promise<Issued> => {
  const use: RefusedUse = { ...token, identity: null };
  return refusing(core, use, origin, async () => {
    const request = await checkedRequest(core, body, origin);
    use.identity = request.identity;
    const { enrolled, outcome } = await attempt(core, token, request, origin);
    core.observe.enroll(outcome);
    return enrolled;
  });
};

const attempt = async (
  core: EnrollCore,
  { tokenId, policyId }: AdmittedToken,
  request: EnrollmentRequest,
  origin: Origin,
): Promise<{ enrolled: Issued; outcome: "issued" | "retried" }> => {
  const reserved = await core.db.transaction((tx) => reserve(tx, core, request, { tokenId, policyId }));
  if (reserved.kind === "issued") return { enrolled: reserved, outcome: "retried" };

  const { reservation } = reserved;
  const now = core.clock.now();
  try {
    const terms = { serial: core.entropy.bytes(16), now, ttlSeconds: reserved.policy.certificateTtlSeconds };
    const issued = await sign(core.signer, request, terms);
    const enrolled = await core.db.transaction((tx) => record(tx, core, { request, reservation, issued, now, origin }));
    return { enrolled, outcome: "issued" };
  } catch (error) {
    await core.db.transaction((tx) => deleteReservation(tx, reservation.id));
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

interface Issuing {
  request: EnrollmentRequest;
  reservation: ReservationRow;
  issued: IssuedCertificate;
  now: number;
  origin: Origin;
}

/** The issuing transaction: rechecks token, policy and identity, then counts, identity, certificate and audit event at once. */
const record = async (tx: Executor, core: EnrollCore, issuing: Issuing): Promise<Issued> => {
  const { request, reservation, issued, now, origin } = issuing;
  const { clock, entropy } = core;
  const locked = {
    policy: await lockPolicy(tx, reservation.policyId),
    token: await lockToken(tx, reservation.tokenId),
  };
  const { policy } = admitUse(locked.policy, locked.token, origin.remoteAddress, clock.now());
  if (!(await deleteReservation(tx, reservation.id))) throw new Refusal("enrollment_in_progress");
  const known = await lockIdentityByName(tx, request.identity);
  const at = new Date(clock.now());
  // Somebody whose place ran out meanwhile may have had the name first, under another policy's lock.
  if (known) await admitAgain(tx, policy, known, at);

  const { hostname, platform, collectorVersion } = request;
  const about = { policyId: policy.id, tokenId: reservation.tokenId, hostname, platform, collectorVersion };
  const identity = known
    ? { ...known, ...about }
    : await insertIdentity(tx, {
        id: uuidv7({ clock, entropy }),
        identity: request.identity,
        deviceId: request.deviceId,
        enrolledAt: at,
        ...about,
      });
  if (known) {
    await updateIdentityReenrolled(tx, known.id, about);
    await updateActiveReplaced(tx, known.id, at);
  } else await incrementEnrollmentCount(tx, policy.id);
  await incrementTokenUse(tx, reservation.tokenId, { at, address: origin.remoteAddress });
  const certificate = await insertCertificate(
    tx,
    issuedRow(issued, {
      id: uuidv7({ clock, entropy }),
      identityId: identity.id,
      predecessorId: null,
      tokenId: reservation.tokenId,
      spkiSha256: request.spkiSha256,
      issuedAt: now,
    }),
  );
  if (certificate === undefined) throw new Refusal("signer_failed", { cause: new SignerFault(issuedBefore) });
  await recordAudit(
    tx,
    { clock, entropy },
    {
      actor: { type: "collector", id: identity.id, display: identity.identity },
      action: "collector.enroll",
      target: { type: "collector_identity", id: identity.id },
      outcome: "success",
      origin,
      details: {
        policy_id: policy.id,
        token_id: reservation.tokenId,
        certificate_id: certificate.id,
        fingerprint_sha256: issued.fingerprintSha256,
        not_after: certificate.notAfter.toISOString(),
        reenrolled: known !== undefined,
      },
    },
  );
  return { identity, certificate };
};
