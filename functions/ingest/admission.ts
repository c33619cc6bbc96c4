import { type ContextValues, createContextKey } from "@connectrpc/connect";
import type { Clock } from "#kit/clock.ts";
import { groupCalls, singleFlight } from "#kit/group-calls.ts";
import type { IdentityResult } from "#proto/identity.ts";
import type { AgentKind } from "#proto/values.ts";
import { Problem, type ProblemCode } from "../problems.ts";
import type { CertificateState, EndsRead } from "../store/certificate/certificates.ts";

/** The client certificate of a connection, verified by TLS against the ingest client CA. */
export interface CallerCertificate {
  identity: IdentityResult;
  /** SHA-256 of the DER, lowercase hex. */
  fingerprintSha256: string;
  /** Milliseconds since the Unix epoch. */
  notAfter: number;
  /** A signed report is verified by it, and audited with its address. */
  connection?: CallerConnection;
}

/** The connection of a caller. */
export interface CallerConnection {
  /** The client certificate. */
  der: Uint8Array;
  remoteAddress: string;
}

/** Set by the listener for each request. */
export const callerCertificateKey = createContextKey<CallerCertificate | undefined>(undefined, {
  description: "the TLS client certificate",
});

/** A caller that core has admitted. */
export interface Caller {
  identity: string;
  fingerprintSha256: string;
  notAfter: number;
  connection?: CallerConnection;
  /** Absent for a certificate that has no row. */
  identityId?: string;
}

/** Set by the gate once the caller is admitted. */
export const callerKey = createContextKey<Caller | undefined>(undefined, {
  description: "the admitted caller",
});

/** A certificate of core, and its identity. */
export interface UsedCertificate {
  certificateId: string;
  identityId: string;
}

/** Returns the caller of a call that has passed the gate. */
export const callerOf = ({ values }: { values: ContextValues }): Caller => {
  const caller = values.get(callerKey);
  if (caller === undefined) throw new Error("the request did not pass the gate");
  return caller;
};

/** Looks up and records the use of certificates that core may have issued. */
export interface CertificateRegister {
  /** Returns the status of certificates by fingerprint (lowercase hex); one without a row is absent. */
  find(fingerprints: readonly string[]): Promise<ReadonlyMap<string, CertificateState>>;
  /** Reports whether all of them are active and their identities not revoked; none may be given twice. */
  areActive(fingerprints: readonly string[]): Promise<boolean>;
  /** Returns the fingerprints of the certificates that ended since an earlier call, `read`; undefined when that is not known. */
  ended(
    since: EndsRead | undefined,
  ): Promise<{ read: EndsRead; ended: ReadonlySet<string> | undefined }>;
  /** Records the first use of a certificate, which replaces its predecessor (docs/api.md). */
  use(certificate: UsedCertificate): Promise<void>;
  /** Records a refusal as the last auth failure of the identity, if core knows it. */
  refused(failure: {
    identity: string;
    reason: ProblemCode;
    certificateId?: string;
  }): Promise<void>;
}

/** Decides who may send. */
export type Admission = ReturnType<typeof createAdmission>;

/** Certificates of one query. */
const lookupsMax = 128;

/** Creates the admission; with `requireEnrollment` a caller also needs an active certificate row and an active identity row. */
export const createAdmission = ({
  clock,
  certificates,
  requireEnrollment,
  pause,
}: {
  clock: Pick<Clock, "now">;
  certificates: CertificateRegister;
  requireEnrollment: boolean;
  /** Resolves when the next query of certificates may begin: more connections share it. None by default. */
  pause?: (() => Promise<void>) | undefined;
}) => {
  const expiryFault = (caller: Caller): Problem | undefined =>
    clock.now() < caller.notAfter + 1000 ? undefined : new Problem("certificate_expired");

  const recordRefusal = (
    identity: string,
    reason: ProblemCode,
    state: CertificateState | undefined,
  ) =>
    certificates.refused({
      identity,
      reason,
      ...(state ? { certificateId: state.certificateId } : {}),
    });
  // Calls that arrive together share a query, however many there are, and whether of one certificate or of several.
  const findInGroup = groupCalls<string, CertificateState | undefined>({
    run: async (fingerprints) => {
      const states = await certificates.find(fingerprints);
      return fingerprints.map((fingerprint) => states.get(fingerprint));
    },
    keyOf: (fingerprint) => fingerprint,
    concurrency: 2,
    itemsMax: lookupsMax,
    ...(pause && { pause }),
    // A fingerprint cannot fail alone.
    isolate: () => false,
  });
  const findState = singleFlight(findInGroup, (fingerprint) => fingerprint);
  /** Callers that a recheck has looked up; what has ended since is read from there. */
  const confirmed = new WeakSet<Caller>();
  let endsRead: EndsRead | undefined;

  return {
    /**
     * Returns why a certificate has no active row, and the Problem with which ingest rejects it for that. For a connection; `admit` decides
     * on each call.
     */
    async check({ identity, fingerprintSha256 }: CallerCertificate) {
      if (!identity.ok) return { fault: undefined, refuse: undefined };
      const state = await findState(fingerprintSha256);
      const fault = faultOf(state);
      if (fault === undefined || !requireEnrollment)
        return { fault: fault?.code, refuse: undefined };
      await recordRefusal(identity.identity, fault.code, state);
      return { fault: fault.code, refuse: fault };
    },
    /** Returns the caller, or throws a Problem that says why it may not send as an agent of this kind. */
    async admit(
      certificate: CallerCertificate | undefined,
      agent: AgentKind = "svc-collector",
    ): Promise<Caller> {
      if (certificate === undefined) throw new Problem("client_certificate_required");
      const { identity, ...rest } = certificate;
      if (!identity.ok) throw new Problem("certificate_identity_invalid");
      const caller: Caller = { ...rest, identity: identity.identity };
      const expired = expiryFault(caller);
      if (expired) {
        await certificates.refused({ identity: caller.identity, reason: expired.code });
        throw expired;
      }
      const state = await findState(caller.fingerprintSha256);
      const rowFault = requireEnrollment ? faultOf(state) : undefined;
      const fault = rowFault ?? agentFault(state, agent);
      if (fault) {
        await recordRefusal(caller.identity, fault.code, state);
        throw fault;
      }
      if (state && !state.used && faultOf(state) === undefined) await certificates.use(state);
      return state === undefined ? caller : { ...caller, identityId: state.identityId };
    },
    /**
     * Records an expired certificate, of which TLS has not checked the chain, as the last auth failure of its identity: only if core has
     * issued it. Never rejects.
     */
    async recordExpired({ identity, fingerprintSha256 }: CallerCertificate) {
      if (!identity.ok) return;
      try {
        const state = await findState(fingerprintSha256);
        if (state) await recordRefusal(identity.identity, "certificate_expired", state);
      } catch {
        // The database is unavailable, and the host will try again.
      }
    },
    /**
     * Returns why callers may send no longer; those who may are absent. Looks up the callers that are new to it, and those whose
     * certificate has ended since the last time: a replica has thousands of others. Calls may overlap.
     */
    async recheck(callers: readonly Caller[]): Promise<ReadonlyMap<Caller, Problem>> {
      const faults = new Map<Caller, Problem>();
      if (!requireEnrollment || callers.length === 0) return faults;
      // Before the lookup: what ends after a caller was looked up is read the next time.
      const { read, ended } = await certificates.ended(endsRead);
      const suspects = callers.filter(
        (caller) =>
          ended === undefined || !confirmed.has(caller) || ended.has(caller.fingerprintSha256),
      );
      const fingerprints = [...new Set(suspects.map(({ fingerprintSha256 }) => fingerprintSha256))];
      if (fingerprints.length > 0 && !(await certificates.areActive(fingerprints))) {
        const states = await certificates.find(fingerprints);
        for (const caller of suspects) {
          const fault = faultOf(states.get(caller.fingerprintSha256));
          if (fault) faults.set(caller, fault);
        }
      }
      for (const caller of suspects) confirmed.add(caller);
      endsRead = read;
      return faults;
    },
    /** Returns `certificate_expired` once the certificate has expired. */
    expiryFault,
  };
};

const denied = (code: ProblemCode) => new Problem(code, { kind: "forbidden" });

const agentFault = (state: CertificateState | undefined, agent: AgentKind): Problem | undefined =>
  state && state.agent !== agent ? denied("agent_not_allowed") : undefined;

/** These are all `PERMISSION_DENIED` at ingest (docs/protocol.md); management requests answer 401 with the same codes. */
const faultOf = (state: CertificateState | undefined): Problem | undefined => {
  if (state === undefined) return denied("certificate_unknown");
  if (state.identityRevoked) return denied("identity_revoked");
  if (state.status === "revoked") return denied("certificate_revoked");
  if (state.status === "replaced") return denied("certificate_replaced");
  return undefined;
};
