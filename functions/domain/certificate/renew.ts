import type { Core } from "#functions/core.ts";
import { Problem } from "#functions/problems.ts";
import { type CheckedCsr, checkCsr, csrFaultDetail } from "#functions/signer/csr.ts";
import {
  type IssuedCertificate,
  issuedBefore,
  type Signer,
  SignerFault,
  type SigningRequest,
} from "#functions/signer/signer.ts";
import {
  findCertificate,
  findUnusedSuccessor,
  type Issued,
  insertCertificate,
  issuedRow,
  listRenewalTimes,
  lockCertificate,
  updateReplaced,
} from "#functions/store/certificate/certificates.ts";
import {
  findIdentity,
  type IdentityRow,
  lockIdentity,
  updateIdentity,
} from "#functions/store/certificate/identities.ts";
import type { Executor } from "#functions/store/database/database.ts";
import { findPolicy } from "#functions/store/enrollment/policies.ts";
import { equalBytes, sha256 } from "#kit/bytes.ts";
import { hourMs, minuteMs } from "#kit/clock.ts";
import { uuidv7 } from "#kit/entropy.ts";
import type { RenewRequest } from "#proto/management/renew.ts";
import { type Origin, recordAudit } from "../audit/audit-log.ts";
import {
  type AdmittedCollector,
  admitProof,
  auditRefusal,
  type ProvenCollector,
} from "./authenticate.ts";

/** The parts of core that renewal uses. */
export type RenewCore = Pick<Core, "db" | "clock" | "entropy" | "cryptography"> & {
  signer: Signer;
};

/**
 * Renews the presented certificate (docs/api.md): admits, signs outside any transaction, records. The presented certificate stays active
 * until its successor is first used. A retry with the same key returns the same successor; a new key replaces an unused one. So an identity
 * has one lineage even under concurrent renewals. `checkRate` limits what core issues to one identity. A crash after signing leaves a
 * certificate without a row, which core rejects, and the next attempt starts over.
 */
export const renew = async (
  core: RenewCore,
  caller: ProvenCollector,
  body: RenewRequest,
  origin: Origin,
): Promise<Issued> => {
  const presented = await admitProof(core, "renew", caller, origin);
  return renewAdmitted(core, { presented, identity: caller.certificate.identity }, body, origin);
};

/** Renews the certificate of a caller that was admitted: see `renew`. */
export const renewAdmitted = async (
  core: RenewCore,
  { presented, identity: name }: { presented: AdmittedCollector; identity: string },
  body: Pick<RenewRequest, "csr_pem" | "collector_version">,
  origin: Origin,
): Promise<Issued> => {
  const { db, clock, entropy, signer } = core;
  const csr = await requestOf(core, name, body);
  const spkiSha256 = await sha256(new Uint8Array(csr.spki));

  const identity = await findIdentity(db, presented.identityId);
  const successor = await findUnusedSuccessor(db, presented.certificateId);
  if (identity && successor && equalBytes(successor.spkiSha256, spkiSha256))
    return { identity, certificate: successor };

  const policy = identity && (await findPolicy(db, identity.policyId));
  if (identity === undefined || policy === undefined)
    throw new Error("an identity without its policy");
  const issuedAt = clock.now();
  const request = {
    csrPem: body.csr_pem,
    spki: csr.spki,
    identity: csr.identity,
    ttlSeconds: policy.certificateTtlSeconds,
    serial: entropy.bytes(16),
    now: issuedAt,
  };
  try {
    await checkRate(
      db,
      (await findCertificate(db, presented.certificateId))?.renewAfter,
      presented.identityId,
      clock.now(),
    );
    const issued = await sign(signer, request);
    return await db.transaction((tx) =>
      record(tx, core, { presented, spkiSha256, issued, issuedAt, body, origin }),
    );
  } catch (error) {
    if (error instanceof Problem && error.code === "rate_limited")
      await auditRefusal(core, {
        identity: identity.identity,
        action: "certificate.renew",
        target: { type: "collector_identity", id: identity.id },
        reason: error.code,
        origin,
      });
    if (!(error instanceof SignerFault)) throw error;
    await recordSignerFault(core, { identity, presented, fault: error, origin });
    throw new Problem("signer_failed", { cause: error });
  }
};

/** Returns the checked certificate request. Throws `csr_invalid`, and `identity_mismatch` for the name of another identity. */
const requestOf = async (
  { cryptography }: RenewCore,
  identity: string,
  body: Pick<RenewRequest, "csr_pem">,
): Promise<CheckedCsr> => {
  const checked = await checkCsr(body.csr_pem, cryptography);
  if (!checked.ok) throw new Problem("csr_invalid", { detail: csrFaultDetail[checked.fault] });
  if (checked.csr.identity !== identity) throw new Problem("identity_mismatch");
  return checked.csr;
};

/** Renewals of one identity in any minute. */
const minuteCountMax = 6;
/** After so many renewals of one identity in an hour, renews only a certificate that is due, so that the limit never lets one expire. */
const hourCountMax = 30;
/** Also counts certificates that a core with a faster clock has issued; core is not ready when its clock is off by more. */
const clockToleranceMs = 5 * minuteMs;

/**
 * Throws 429 `rate_limited` when an identity has renewed too often, with any of its certificates. Counts the certificates in the database,
 * so that all cores agree and repeated responses do not count.
 */
const checkRate = async (
  db: Executor,
  renewAfter: Date | undefined,
  identityId: string,
  now: number,
) => {
  const window = {
    since: new Date(now - hourMs),
    until: new Date(now + clockToleranceMs),
    limit: hourCountMax,
  };
  const times = await listRenewalTimes(db, identityId, window);
  const freeAt = (countMax: number, windowMs: number) =>
    (times[countMax - 1]?.getTime() ?? -windowMs) + windowMs;
  const earlyAt = Math.min(freeAt(hourCountMax, hourMs), renewAfter?.getTime() ?? now);
  const waitMs = Math.max(freeAt(minuteCountMax, minuteMs), earlyAt) - now;
  if (waitMs > 0)
    throw new Problem("rate_limited", { retryAfterSeconds: Math.ceil(waitMs / 1000) });
};

/** Converts any failure of the signer to a `SignerFault`. */
const sign = async (signer: Signer, request: SigningRequest): Promise<IssuedCertificate> => {
  try {
    return await signer.sign(request);
  } catch (cause) {
    throw cause instanceof SignerFault
      ? cause
      : new SignerFault("the signer failed; see the log", { cause });
  }
};

const recordSignerFault = (
  core: RenewCore,
  failed: {
    identity: IdentityRow;
    presented: AdmittedCollector;
    fault: SignerFault;
    origin: Origin;
  },
) => {
  const { identity, presented, fault, origin } = failed;
  return core.db.transaction((tx) =>
    recordAudit(tx, core, {
      actor: { type: "collector", id: identity.id, display: identity.identity },
      action: "certificate.renew",
      target: { type: "certificate", id: presented.certificateId },
      outcome: "failure",
      reason: "signer_failed",
      origin,
      details: { identity_id: identity.id, signer_fault: fault.message },
    }),
  );
};

interface Renewal {
  presented: AdmittedCollector;
  spkiSha256: Uint8Array;
  issued: IssuedCertificate;
  issuedAt: number;
  body: Pick<RenewRequest, "collector_version">;
  origin: Origin;
}

/** Checks identity and certificate again under the identity's lock, then writes successor and audit event. */
const record = async (
  tx: Executor,
  core: RenewCore,
  { presented, spkiSha256, issued, issuedAt, body, origin }: Renewal,
): Promise<Issued> => {
  const identity = await lockIdentity(tx, presented.identityId);
  const predecessor = await lockCertificate(tx, presented.certificateId);
  if (identity === undefined || predecessor === undefined) throw new Problem("certificate_unknown");
  if (identity.revokedAt !== null)
    throw new Problem("identity_revoked", { kind: "unauthenticated" });
  if (predecessor.status === "revoked") throw new Problem("certificate_revoked");
  if (predecessor.status === "replaced") throw new Problem("certificate_replaced");
  const unused = await findUnusedSuccessor(tx, predecessor.id);
  if (unused && equalBytes(unused.spkiSha256, spkiSha256)) return { identity, certificate: unused };
  await checkRate(tx, predecessor.renewAfter, identity.id, core.clock.now());
  if (unused) await updateReplaced(tx, [unused.id], new Date(core.clock.now()));

  const certificate = await insertCertificate(
    tx,
    issuedRow(issued, {
      id: uuidv7(core),
      identityId: identity.id,
      predecessorId: predecessor.id,
      tokenId: null,
      spkiSha256,
      issuedAt,
    }),
  );
  if (certificate === undefined) throw issuedBefore();
  const collectorVersion = body.collector_version;
  await updateIdentity(tx, identity.id, { collectorVersion });
  await recordAudit(tx, core, {
    actor: { type: "collector", id: identity.id, display: identity.identity },
    action: "certificate.renew",
    target: { type: "certificate", id: certificate.id },
    outcome: "success",
    origin,
    details: {
      identity_id: identity.id,
      predecessor_id: predecessor.id,
      fingerprint_sha256: issued.fingerprintSha256,
      not_after: certificate.notAfter.toISOString(),
      ...(unused ? { replaced_unused_id: unused.id } : {}),
    },
  });
  return { identity: { ...identity, collectorVersion }, certificate };
};
