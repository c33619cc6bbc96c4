import { createContextKey } from "@connectrpc/connect";
import type { Clock } from "../../kit/clock.ts";
import type { IdentityResult } from "../../proto/identity.ts";
import { Problem, type ProblemCode } from "../problems.ts";
import type { CertificateStanding } from "../store/certificates.ts";

/** The client certificate of a connection, which TLS has verified against the ingest client CA. */
export interface CallerCertificate {
  identity: IdentityResult;
  /** SHA-256 of the DER, lowercase hex. */
  fingerprintSha256: string;
  /** Milliseconds since the Unix epoch. */
  notAfter: number;
}

/** Set by the listener for each request. */
export const callerCertificateKey = createContextKey<CallerCertificate | undefined>(undefined, {
  description: "the TLS client certificate",
});

/** A caller that may send, as what. */
export interface Caller {
  identity: string;
  fingerprintSha256: string;
  notAfter: number;
}

/** Set by the gate once the caller is admitted. */
export const callerKey = createContextKey<Caller | undefined>(undefined, { description: "the admitted caller" });

/** What core knows of certificates that it may have issued. */
export interface CertificateRegister {
  /** Standings by fingerprint (lowercase hex); a certificate without a row is absent. */
  find(fingerprints: readonly string[]): Promise<ReadonlyMap<string, CertificateStanding>>;
  /** The first use of a certificate, which replaces its predecessor (contract, section 3, "Renew"). */
  use(certificate: { certificateId: string; identityId: string }): Promise<void>;
  /** A caller was refused: its identity's last auth failure, if core knows the identity. */
  refused(failure: { identity: string; reason: ProblemCode; certificateId?: string }): Promise<void>;
}

/** Decides who may send. */
export interface Admission {
  /** The caller, or `client_certificate_required`, `certificate_identity_invalid`, or what `faultOf` finds. */
  admit(certificate: CallerCertificate | undefined): Promise<Caller>;
  /** Why each of these callers may send no longer; those who may are absent. One query, or none. */
  recheck(callers: readonly Caller[]): Promise<ReadonlyMap<Caller, Problem>>;
  /** `certificate_expired` once its time is over. */
  expiryFault(caller: Caller): Problem | undefined;
}

/** Makes the admission; with `requireEnrollment` an active certificate row and an active identity row are needed too. */
export const createAdmission = ({
  clock,
  certificates,
  requireEnrollment,
}: {
  clock: Pick<Clock, "now">;
  certificates: CertificateRegister;
  requireEnrollment: boolean;
}): Admission => {
  const expiryFault = (caller: Caller): Problem | undefined =>
    clock.now() < caller.notAfter + 1000 ? undefined : new Problem("certificate_expired");

  return {
    async admit(certificate) {
      if (certificate === undefined) throw new Problem("client_certificate_required");
      const { identity, fingerprintSha256, notAfter } = certificate;
      if (!identity.ok) throw new Problem("certificate_identity_invalid");
      const caller: Caller = { identity: identity.identity, fingerprintSha256, notAfter };
      const expired = expiryFault(caller);
      if (expired) throw expired;
      const standing = (await certificates.find([fingerprintSha256])).get(fingerprintSha256);
      const fault = requireEnrollment ? standingFault(standing) : undefined;
      if (fault) {
        const { identity, certificateId } = { ...caller, ...standing };
        await certificates.refused({ identity, reason: fault.code, ...(certificateId ? { certificateId } : {}) });
        throw fault;
      }
      if (standing && !standing.used && standingFault(standing) === undefined) await certificates.use(standing);
      return caller;
    },
    async recheck(callers) {
      const faults = new Map<Caller, Problem>();
      if (!requireEnrollment || callers.length === 0) return faults;
      const fingerprints = [...new Set(callers.map(({ fingerprintSha256 }) => fingerprintSha256))];
      const standings = await certificates.find(fingerprints);
      for (const caller of callers) {
        const fault = standingFault(standings.get(caller.fingerprintSha256));
        if (fault) faults.set(caller, fault);
      }
      return faults;
    },
    expiryFault,
  };
};

/** At ingest these are all `PERMISSION_DENIED` (contract, section 7); management requests answer 401 to the same codes. */
const standingFault = (standing: CertificateStanding | undefined): Problem | undefined => {
  const denied = (code: ProblemCode) => new Problem(code, { kind: "forbidden" });
  if (standing === undefined) return denied("certificate_unknown");
  if (standing.identityRevoked) return denied("identity_revoked");
  if (standing.status === "revoked") return denied("certificate_revoked");
  if (standing.status === "replaced") return denied("certificate_replaced");
  return undefined;
};
