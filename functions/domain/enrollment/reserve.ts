import type { Core } from "../../core.ts";
import { uuidv7 } from "../../kit/entropy.ts";
import { findActiveCertificates, findEnrolledCertificate } from "../../store/certificates.ts";
import type { Executor } from "../../store/database.ts";
import { countEnrolledSince, type IdentityRow, lockIdentityByName } from "../../store/identities.ts";
import { lockPolicy, type PolicyRow } from "../../store/policies.ts";
import {
  countFirstReservations,
  countTokenReservations,
  deleteExpiredReservations,
  insertReservation,
  isReserved,
  type ReservationRow,
} from "../../store/reservations.ts";
import { lockToken, type TokenRow } from "../../store/tokens.ts";
import type { Issued } from "../certificate/issued.ts";
import { Refusal } from "./refuse.ts";
import { addressAllowed, identityAllowed, platformAllowed, tokenState } from "./rules.ts";

/** For how long a place is held while the signer runs. */
const reservationMs = 60_000;
/** For how long a lost answer is answered again. */
const retryMs = 10 * 60_000;
const hourMs = 3_600_000;

/** A request whose certificate request has been checked. */
export interface EnrollmentRequest {
  identity: string;
  spki: Uint8Array;
  spkiSha256: Uint8Array;
  csrPem: string;
  deviceId: string;
  hostname: string | null;
  platform: string;
  collectorVersion: string;
  remoteAddress: string;
}

/** What the first transaction decides: a place to sign for, or the certificate of a request that was answered before. */
export type Reserved =
  | { kind: "place"; reservation: ReservationRow; policy: PolicyRow }
  | ({ kind: "issued" } & Issued);

/**
 * Decides under the policy's lock whether a request may enroll, and holds a place for it under every limit. Throws `Refusal`.
 * Order: token revoked or expired, frozen, address; a retry of the same key; exhaustion, identity, device, platform; limits.
 */
export const reserve = async (
  tx: Executor,
  { clock, entropy }: Pick<Core, "clock" | "entropy">,
  request: EnrollmentRequest,
  ids: { tokenId: string; policyId: string },
): Promise<Reserved> => {
  const now = clock.now();
  const at = new Date(now);
  const locked = { policy: await lockPolicy(tx, ids.policyId), token: await lockToken(tx, ids.tokenId) };
  const { policy, token } = admitUse(locked.policy, locked.token, request.remoteAddress, now);
  await deleteExpiredReservations(tx, policy.id, at);

  const identity = await lockIdentityByName(tx, request.identity);
  const since = new Date(now - retryMs);
  const spkiSha256 = request.spkiSha256;
  const issued = await findEnrolledCertificate(tx, { tokenId: token.id, spkiSha256, since });
  if (issued && identity?.id === issued.identityId && identity.revokedAt === null) {
    return { kind: "issued", certificate: issued, identity };
  }
  if (await isReserved(tx, request.identity, at)) throw new Refusal("enrollment_in_progress");
  if (token.maxUses > 0 && token.useCount + (await countTokenReservations(tx, token.id)) >= token.maxUses) {
    throw new Refusal("token_invalid", { reason: "token_exhausted" });
  }
  admitDevice(policy, token, request);
  if (identity) await admitAgain(tx, policy, identity, at);
  else await admitFirst(tx, policy, now);

  const reservation = await insertReservation(
    tx,
    {
      id: uuidv7({ clock, entropy }),
      policyId: policy.id,
      tokenId: token.id,
      identity: request.identity,
      spkiSha256,
      firstEnrollment: identity === undefined,
      expiresAt: new Date(now + reservationMs),
    },
    at,
  );
  if (reservation === undefined) throw new Refusal("enrollment_in_progress");
  return { kind: "place", reservation, policy };
};

/**
 * The policy and token of a use, if what must hold at the reservation and again at the issue does: the token lives, the policy
 * is open, the address is allowed. Throws `Refusal`.
 */
export const admitUse = (
  policy: PolicyRow | undefined,
  token: TokenRow | undefined,
  remoteAddress: string,
  now: number,
): { policy: PolicyRow; token: TokenRow } => {
  if (policy === undefined || token === undefined) throw new Refusal("token_invalid", { reason: "token_unknown" });
  const state = tokenState(token, now);
  if (state === "revoked" || state === "expired") throw new Refusal("token_invalid", { reason: `token_${state}` });
  if (policy.frozenAt !== null) throw new Refusal("policy_frozen");
  const allowed =
    addressAllowed(policy.allowedSourceCidrs, remoteAddress) && addressAllowed(token.allowedSourceCidrs, remoteAddress);
  if (!allowed) throw new Refusal("source_not_allowed");
  return { policy, token };
};

const admitDevice = (policy: PolicyRow, token: TokenRow, request: EnrollmentRequest): void => {
  if (!identityAllowed(policy.allowedIdentityPrefixes, request.deviceId, request.identity)) {
    throw new Refusal("identity_not_allowed");
  }
  if (token.boundDeviceId !== null && token.boundDeviceId !== request.deviceId) throw new Refusal("device_not_allowed");
  if (!platformAllowed(policy.allowedPlatforms, request.platform)) throw new Refusal("platform_not_allowed");
};

/** Whether an identity may enroll again, decided at the reservation and at the issue. Throws `Refusal`. */
export const admitAgain = async (tx: Executor, policy: PolicyRow, identity: IdentityRow, now: Date): Promise<void> => {
  if (identity.revokedAt !== null) {
    throw new Refusal("identity_revoked", { detail: "The identity was revoked, which is final: use a new device id" });
  }
  if (policy.reenrollment === "replace") return;
  const active = await findActiveCertificates(tx, identity.id, now);
  if (active.length > 0) throw new Refusal("identity_exists");
};

const admitFirst = async (tx: Executor, policy: PolicyRow, now: number): Promise<void> => {
  const held = await countFirstReservations(tx, policy.id);
  if (policy.maxEnrollments > 0 && policy.enrollmentCount + held >= policy.maxEnrollments) {
    throw new Refusal("enrollment_limit_reached");
  }
  if (policy.maxEnrollmentsPerHour === 0) return;
  const lastHour = await countEnrolledSince(tx, policy.id, new Date(now - hourMs));
  if (lastHour + held >= policy.maxEnrollmentsPerHour)
    throw new Refusal("enrollment_rate_limited", { retryAfterSeconds: 60 });
};
