import type { Core, TimedCore, WriteCore } from "#functions/core.ts";
import { Problem } from "#functions/problems.ts";
import type { ClientCertificate } from "#functions/signer/certificate.ts";
import { hasAuditEventSince } from "#functions/store/audit/audit.ts";
import { updateFirstUsed, updateReplaced } from "#functions/store/certificate/certificates.ts";
import {
  lockIdentities,
  lockIdentityByName,
  updateAuthFailure,
} from "#functions/store/certificate/identities.ts";
import {
  inheritProofUses,
  type ProofAdmission,
  type ProofUse,
  spacingSecondsOf,
  useProof,
} from "#functions/store/certificate/proof-uses.ts";
import { limitLockWaits, planByIndex } from "#functions/store/database/statements.ts";
import { possibleTimes } from "#kit/clock.ts";
import {
  canonicalBody,
  clockSkewMsMax,
  decodeProof,
  type ProofPurpose,
  proofPayload,
} from "#proto/management/proof.ts";
import { parseTimestamp } from "#proto/values.ts";
import { type AuditEntry, type Origin, recordAudit } from "../audit/audit-log.ts";

/** The parts of core that verify a proof. */
export type ProveCore = Pick<
  Core,
  "db" | "clock" | "entropy" | "cryptography" | "clientCertificates"
>;

/** The client certificate and the signed request that a collector presents. */
interface Presented {
  /** DER of the client certificate. */
  der: Uint8Array;
  purpose: ProofPurpose;
  /** The whole body as parsed from JSON, unknown fields included. */
  body: Readonly<Record<string, unknown>>;
  sentAt: string;
  proof: string;
}

/** A caller that holds the certificate's key and has just signed this request. The certificate's row has not been read yet. */
export interface ProvenCollector {
  certificate: ClientCertificate;
  /** Milliseconds since the epoch. */
  sentAt: number;
}

/** A caller whose certificate is active and whose proof core has accepted; core does not accept it again. */
export interface AdmittedCollector {
  certificateId: string;
  identityId: string;
}

/** An authentication failure of a known identity. */
interface AuthFailure {
  identity: string;
  /** The problem's code. */
  reason: string;
  certificateId?: string;
  origin?: Origin;
}

/** Records failures of an identity at most this often, so that a flood of bad requests writes nothing. */
const failureIntervalMs = 60_000;

const encoder = new TextEncoder();

/**
 * Verifies a proof of possession (docs/api.md) as far as it needs no database: chain, usage, single name, clock, signature. Throws 401
 * `certificate_identity_invalid`, `certificate_unknown`, `clock_skew` or `proof_invalid`; records the last two as the identity's last
 * authentication failure.
 */
export const proveCollector = async (
  core: ProveCore,
  presented: Presented,
): Promise<ProvenCollector> => {
  const { clock, cryptography } = core;
  const certificate = await verifyClientChain(core, presented.der);
  const sentAt = parseTimestamp(presented.sentAt);
  if (
    sentAt === undefined ||
    possibleTimes(clock).every((now) => Math.abs(now - sentAt) > clockSkewMsMax)
  ) {
    await recordAuthFailure(core, { identity: certificate.identity, reason: "clock_skew" });
    throw new Problem("clock_skew", {
      extensions: { server_time: new Date(clock.now()).toISOString() },
    });
  }
  const payload = proofPayload({
    purpose: presented.purpose,
    identity: certificate.identity,
    certificateSha256: certificate.fingerprintSha256,
    sentAt: presented.sentAt,
    bodySha256: await cryptography.sha256Hex(canonicalBody(presented.body)),
  });
  const signature = decodeProof(presented.proof);
  const { spki, proofAlgorithm: algorithm } = certificate;
  const data = encoder.encode(payload);
  if (
    signature === undefined ||
    !(await cryptography.verify({ spki, algorithm, data, signature }))
  ) {
    await recordAuthFailure(core, { identity: certificate.identity, reason: "proof_invalid" });
    throw new Problem("proof_invalid");
  }
  return { certificate, sentAt };
};

/** Returns a client certificate that chains to the bundle. Throws 401 `certificate_identity_invalid` or `certificate_unknown`. */
export const verifyClientChain = async (
  { clientCertificates }: Pick<ProveCore, "clientCertificates">,
  der: Uint8Array,
): Promise<ClientCertificate> => {
  const read = await clientCertificates.read(der);
  if (read.ok) return read.certificate;
  const code =
    read.fault === "identity_invalid" ? "certificate_identity_invalid" : "certificate_unknown";
  throw new Problem(code, {
    cause: new Error(`client certificate: ${read.identityFault ?? read.fault}`),
  });
};

/** Returns the proof use by which the store admits a caller at `now`. */
export const proofUseOf = ({ certificate, sentAt }: ProvenCollector, now: number): ProofUse => ({
  fingerprintSha256: certificate.fingerprintSha256,
  sentAt,
  expired: !isWithinValidity(certificate, now),
});

/** Reports whether a certificate is valid at `now`; both of its dates are inclusive and count whole seconds. */
export const isWithinValidity = (
  { notBefore, notAfter }: Pick<ClientCertificate, "notBefore" | "notAfter">,
  now: number,
): boolean => now >= notBefore && now < notAfter + 1000;

/** Admits a proven caller by its certificate's row, its `sent_at` and the rate limit, and marks the certificate used. */
export const admitProof = async (
  core: WriteCore,
  purpose: ProofPurpose,
  caller: ProvenCollector,
  origin: Origin,
): Promise<AdmittedCollector> => {
  const now = core.clock.now();
  return requireAdmitted(
    core,
    caller,
    await useProof(core.db, purpose, proofUseOf(caller, now), core.clock),
    origin,
  );
};

/**
 * Returns the admitted caller; the first use of a certificate makes its predecessor `replaced`. Throws the problem of any other outcome
 * (docs/api.md), and records a 401 as the identity's last authentication failure.
 */
export const requireAdmitted = async (
  core: WriteCore,
  { certificate: { identity } }: { certificate: Pick<ClientCertificate, "identity"> },
  admission: ProofAdmission,
  origin: Origin,
): Promise<AdmittedCollector> => {
  const { outcome, certificateId, identityId } = admission;
  if (outcome === "admitted" && certificateId !== null && identityId !== null) {
    if (admission.isFirstUse) await markUsed(core, [{ certificateId, identityId }]);
    return { certificateId, identityId };
  }
  switch (outcome) {
    case "stale_request": {
      const lastSentAt =
        admission.lastSentAt === null ? null : new Date(admission.lastSentAt).toISOString();
      throw new Problem(outcome, { extensions: { last_sent_at: lastSentAt } });
    }
    case "rate_limited":
      throw new Problem(outcome, { retryAfterSeconds: spacingSecondsOf() });
    case "admitted":
      throw new Error("admitted without a certificate");
    default: {
      const failure = {
        identity,
        reason: outcome,
        origin,
        ...(certificateId === null ? {} : { certificateId }),
      };
      await recordAuthFailure(core, failure);
      throw new Problem(outcome, { kind: "unauthenticated" });
    }
  }
};

/**
 * Marks certificates used, and their predecessors `replaced`, in one transaction; then their successors inherit what the rate limit counts.
 * Any request may be the first use. Idempotent, and safe to repeat after a crash. The certificates of several hosts fail together when one
 * of their rows is locked for a second.
 */
export const markUsed = async (
  { db, clock }: TimedCore,
  certificates: readonly { certificateId: string; identityId: string }[],
) => {
  const begun = await db.transaction(async (tx) => {
    const identityIds = certificates.map(({ identityId }) => identityId);
    const certificateIds = certificates.map(({ certificateId }) => certificateId);
    const at = new Date(clock.now());
    const [, , , successions] = await Promise.all([
      planByIndex(tx),
      certificates.length > 1 ? limitLockWaits(tx) : undefined,
      lockIdentities(tx, identityIds),
      updateFirstUsed(tx, certificateIds, at),
    ]);
    const predecessors = successions.map(({ predecessorId }) => predecessorId);
    if (predecessors.length > 0) await updateReplaced(tx, predecessors, at);
    return successions;
  });
  // Outside the transaction: a request of the successor holds the lock on its proofs while it waits for rows that the transaction has
  // locked.
  if (begun.length > 0) await inheritProofUses(db, begun);
};

/**
 * Records why an identity was last rejected, at most once a minute; ignores an unknown identity. The certificate's chain must have been
 * verified. Audits the reuse of a `replaced` certificate, at most once a minute too.
 */
export const recordAuthFailure = async (core: WriteCore, failure: AuthFailure) => {
  const { identity, reason, certificateId } = failure;
  const at = new Date(core.clock.now());
  const ifBefore = new Date(at.getTime() - failureIntervalMs);
  await updateAuthFailure(core.db, { identity, reason, at, ifBefore });
  if (reason === "certificate_replaced" && certificateId !== undefined) {
    await recordReuse(core, { ...failure, certificateId });
  }
};

const recordReuse = (
  core: WriteCore,
  { identity, reason, certificateId, origin }: AuthFailure & { certificateId: string },
) =>
  auditRefusal(core, {
    identity,
    action: "certificate.reuse_refused",
    target: { type: "certificate", id: certificateId },
    reason,
    ...(origin ? { origin } : {}),
  });

/** Audits that core rejected a request of a known identity: one event per minute for an action and target, across all cores. */
export const auditRefusal = async (
  { db, clock, entropy }: WriteCore,
  {
    identity,
    ...event
  }: { identity: string } & Pick<AuditEntry, "action" | "target" | "reason" | "origin" | "details">,
) => {
  const since = new Date(clock.now() - failureIntervalMs);
  const audited = { action: event.action, targetId: event.target.id, since };
  if (await hasAuditEventSince(db, audited)) return;
  await db.transaction(async (tx) => {
    // Under the identity's lock, so that concurrent refusals write one event.
    const host = await lockIdentityByName(tx, identity);
    if (host === undefined || (await hasAuditEventSince(tx, audited))) return;
    const actor = { type: "collector", id: host.id, display: identity } as const;
    await recordAudit(tx, { clock, entropy }, { actor, outcome: "failure", ...event });
  });
};
