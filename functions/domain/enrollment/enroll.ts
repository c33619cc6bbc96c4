import type { Attestation } from "#drizzle/schema/enrollment.ts";
import type { Core } from "#functions/core.ts";
import { checkCsr, csrFaultDetail } from "#functions/signer/csr.ts";
import type { IssuedCertificate, Signer } from "#functions/signer/signer.ts";
import { findIdentitiesInUse, type Issued } from "#functions/store/certificate/certificates.ts";
import { lockIdentitiesByName } from "#functions/store/certificate/identities.ts";
import type { Database, Executor } from "#functions/store/database/database.ts";
import { groupTransactions } from "#functions/store/database/group-transactions.ts";
import {
  deleteExpiredReservations,
  deleteReservations,
  lockReservations,
} from "#functions/store/enrollment/enrollments.ts";
import {
  createTokenFinder,
  findPresentedToken,
  findWorkloadPolicies,
  insertAttestedToken,
  lockPolicies,
  type PresentedToken,
} from "#functions/store/enrollment/policies.ts";
import { pooledEntropy, uuidv7 } from "#kit/entropy.ts";
import { leewaySeconds } from "#kit/verify-issuer-token.ts";
import type { EnrollRequest } from "#proto/management/enroll.ts";
import type { Origin } from "../audit/audit-log.ts";
import {
  createVerifySubjectToken,
  IssuerUnavailable,
  SubjectTokenRejected,
} from "../workload/verify-subject-token.ts";
import { attest, attestationRules, claimantOf, refuseToken } from "./attestation-rules.ts";
import { isWellFormedToken, tokenPrefixCharacters } from "./bootstrap-token.ts";
import {
  EnrollmentRefusal,
  type RefusalCore,
  type Refused,
  type RefusedUse,
  type RunOrRefuse,
} from "./refuse.ts";
import {
  checkTokenUse,
  type EnrollmentRequest,
  type Issue,
  type Locked,
  type Recorded,
  type RecordNeeds,
  type Reserved,
  type ReserveRequest,
  readForRecords,
  readForReservations,
} from "./reserve.ts";
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

/** Admits the token that a caller presents; null for no token. */
export type AdmitToken = (rawToken: string | null, origin: Origin) => Promise<AdmittedToken>;

/** The parts of core that admit service account tokens. */
type WorkloadCore = Pick<Core, "config" | "db" | "clock" | "entropy" | "cryptography">;

/**
 * Creates the check of a bootstrap token, or of a service account token, before the request's body is read. The check consumes no use; the
 * reservation and the record repeat it. Throws 401 `token_invalid`, 403 `policy_frozen` or `source_not_allowed`, 429 `throttled`, and 502
 * `issuer_unavailable`.
 */
export const createAdmitToken = (core: WorkloadCore, runOrRefuse: RunOrRefuse): AdmitToken => {
  // Concurrent requests share lookups: the policy's lock checks the results again.
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
      const stored = isWorkload
        ? await admitWorkload(rawToken, use)
        : await findToken(await core.cryptography.sha256Hex(rawToken));
      use.tokenId = stored?.token.id ?? null;
      use.policyId = stored?.policy.id ?? null;
      use.tokenPrefix ??= stored?.token.tokenPrefix ?? null;
      const { token, policy } = checkTokenUse(
        stored?.policy,
        stored?.token,
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
type Enroll = (token: AdmittedToken, body: EnrollRequest, origin: Origin) => Promise<Issued>;

/**
 * Creates the enrollment of hosts (docs/enroll.md): reserves a use under every limit, signs outside any transaction, records. A crash
 * between the steps leaves a reservation that expires after 60 s and a certificate without a row, which core rejects. Refusals are audited;
 * failed uses count against the remote address. Concurrent enrollments share transactions.
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

/** The steps of an enrollment, each in a shared transaction. Both throw `EnrollmentRefusal`. */
interface EnrollmentSteps {
  /** Reserves a use under every limit. */
  reserve(asked: ReserveRequest): Promise<Reserved>;
  /** Records the certificate that was signed for a reservation. */
  record(issue: Issue): Promise<Issued>;
}

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

/** Converts any failure of the signer to `signer_failed`; only the log has its cause. */
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
    agent: body.agent,
    remoteAddress: origin.remoteAddress,
  };
};

/** An issuer that cannot be read may be readable in a few seconds; collectors wait for up to ten. */
const retryAfterSeconds = 5;

/** Reports whether `text` has the form of a JWT. */
const isJwt = (text: string) => /^[\w-]+\.[\w-]+\.[\w-]+$/.test(text);

/**
 * Creates the admission of service account tokens (docs/enroll-kubernetes.md). Stores a token that a policy's rule matches as a token of
 * that policy, for one use by the device that its claims name, until it expires: limits, repeats, races and revocation are those of a
 * bootstrap token. Adds the workload that the token names to `use`. Throws `EnrollmentRefusal`.
 */
const createAdmitWorkload = (
  core: WorkloadCore,
): ((token: string, use: RefusedUse) => Promise<PresentedToken | undefined>) => {
  const { config, db, clock, cryptography } = core;
  const verify = createVerifySubjectToken(config.workloadIssuers, { clock });
  return async (token, use) => {
    const { issuer, payload } = await verify(token).catch(refuseRejected);
    use.attestation = claimantOf(payload);
    // Without the signature, which has several valid encodings: each would be another token.
    const tokenSha256 = await cryptography.sha256Hex(token.slice(0, token.lastIndexOf(".")));
    const known = await findPresentedToken(db, tokenSha256);
    if (known !== undefined) return known;

    const now = clock.now();
    const policies = await findWorkloadPolicies(db, issuer.issuer);
    const policy =
      policies.find(({ workload }) => attest(workload, payload) !== null) ?? policies[0];
    const workload = policy?.workload ?? null;
    enforce(attestationRules, { workload, issuers: config.workloadIssuers(), payload, now });
    const attested = workload && attest(workload, payload);
    if (policy === undefined || attested === null) throw refuseToken("subject_not_allowed");
    await insertAttestedToken(db, {
      id: uuidv7(core),
      policyId: policy.id,
      tokenSha256: Uint8Array.fromHex(tokenSha256),
      tokenPrefix: `jwt_${tokenSha256.slice(0, 8)}`,
      description: null,
      allowedSourceCidrs: [],
      boundDeviceId: attested.deviceId,
      maxUses: 1,
      expiresAt: new Date((Number(payload.exp) + leewaySeconds) * 1000),
      createdAt: new Date(now),
      createdBy: policy.createdBy,
      attestation: attested.attestation,
    });
    // Another core may have stored it first.
    return findPresentedToken(db, tokenSha256);
  };
};

const refuseRejected = (cause: unknown): never => {
  if (cause instanceof SubjectTokenRejected) throw refuseToken(cause.reason, cause);
  if (cause instanceof IssuerUnavailable)
    throw new EnrollmentRefusal("issuer_unavailable", { cause, retryAfterSeconds });
  throw cause;
};

type Step = ReserveRequest | Issue;
const isRecord = (step: Step): step is Issue => "issued" in step;

/**
 * Creates the steps of enrollments, whose transactions concurrent requests share. A transaction records the certificates that were signed
 * since the one before, and makes the next reservations. A transaction for each step would need twice as many.
 * Invariants:
 * - One transaction runs at a time, with at most one step of an identity.
 * - Its first statement takes the policies' locks, and each later one reads what was committed before it.
 * - Reservations are decided as if they came before the records of their transaction, whose own reservations they count.
 * - A step resolves when its transaction has committed.
 * - Records are never rejected for the number that wait, because their certificates are signed.
 */
export const createSteps = ({ db, ...needs }: RecordNeeds & { db: Database }): EnrollmentSteps => {
  const runStep = groupTransactions<Step, Reserved | Recorded | Refused>(db, {
    run: (tx, steps) => runSteps(tx, needs, steps),
    keyOf: ({ request }) => request.identity,
    exempt: isRecord,
  });
  return {
    reserve: async (asked) => {
      const outcome = await runStep(asked);
      if (outcome.kind === "refused") throw outcome.refusal;
      if (outcome.kind === "recorded") throw new Error("a reservation was recorded");
      return outcome;
    },
    record: async (issue) => {
      const outcome = await runStep(issue);
      if (outcome.kind === "refused") throw outcome.refusal;
      if (outcome.kind !== "recorded") throw new Error("a certificate was not recorded");
      return outcome;
    },
  };
};

const runSteps = async (
  tx: Executor,
  needs: RecordNeeds,
  steps: readonly Step[],
): Promise<(Reserved | Recorded | Refused)[]> => {
  const now = needs.clock.now();
  const requests = steps.filter((step): step is ReserveRequest => !isRecord(step));
  const issues = steps.filter(isRecord);
  const locked = lock(tx, { requests, issues, now });
  // All reads, then all writes, each in one round trip; no statement follows a failed one.
  const [reserve, record] = await Promise.all([
    readForReservations(tx, needs, { requests, locked, now }),
    readForRecords(tx, needs, { issues, locked, now }),
  ]);
  const [reserved, recorded] = await Promise.all([reserve(), record()]);
  const outcomes = new Map<Step, Reserved | Recorded | Refused | undefined>([
    ...requests.map((step, index) => [step, reserved[index]] as const),
    ...issues.map((step, index) => [step, recorded[index]] as const),
  ]);
  return steps.flatMap((step) => outcomes.get(step) ?? []);
};

/**
 * Locks policies first, which orders the transactions of all cores, and then reservations in one order: a transaction that records an
 * expired one under another policy ends before this one reads.
 */
const lock = async (
  tx: Executor,
  {
    requests,
    issues,
    now,
  }: { requests: readonly ReserveRequest[]; issues: readonly Issue[]; now: number },
): Promise<Locked> => {
  const at = new Date(now);
  const asked = new Set(requests.map(({ policyId }) => policyId));
  const policyIds = asked.union(new Set(issues.map(({ reservation }) => reservation.policyId)));
  const names = [...requests, ...issues].map(({ request }) => request.identity);
  const expired = {
    policyIds: [...asked],
    identities: requests.map(({ request }) => request.identity),
  };
  const [policies, , , identities, identitiesInUse] = await Promise.all([
    lockPolicies(tx, [...policyIds]),
    lockReservations(tx, { ...expired, ids: issues.map(({ reservation }) => reservation.id) }, at),
    requests.length === 0 ? undefined : deleteExpiredReservations(tx, expired, at),
    lockIdentitiesByName(tx, names),
    findIdentitiesInUse(tx, names, at),
  ]);
  return { policies, identities, identitiesInUse };
};
