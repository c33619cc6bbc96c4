import { uuidv7 } from "../../../kit/entropy.ts";
import { leewaySeconds } from "../../../kit/verify-issuer-token.ts";
import type { Core } from "../../core.ts";
import {
  findPresentedToken,
  findWorkloadPolicies,
  insertAttestedToken,
  type PresentedToken,
} from "../../store/enrollment/policies.ts";
import {
  createVerifySubjectToken,
  IssuerUnavailable,
  SubjectTokenRejected,
} from "../workload/verify-subject-token.ts";
import { attest, attestationRules, claimantOf, refuseToken } from "./attestation-rules.ts";
import { EnrollmentRefusal, type RefusedUse } from "./refuse.ts";
import { enforce } from "./use-rules.ts";

/** The parts of core that admit service account tokens. */
export type WorkloadCore = Pick<Core, "config" | "db" | "clock" | "entropy" | "cryptography">;

/** An issuer that cannot be read now may be in a few seconds; collectors wait for up to ten. */
const retryAfterSeconds = 5;

/** Whether `text` has the form of a JWT. */
export const isJwt = (text: string): boolean => /^[\w-]+\.[\w-]+\.[\w-]+$/.test(text);

/**
 * Creates the admission of service account tokens (docs/enroll-kubernetes.md). A token that a policy's rule matches is stored as a token of
 * that policy, for one use by the device that its claims name, until it expires: limits, repeats, races and revocation are those of a
 * bootstrap token. Adds to `use` whom the token names. Throws `EnrollmentRefusal`.
 */
export const createAdmitWorkload = (
  core: WorkloadCore,
): ((token: string, use: RefusedUse) => Promise<PresentedToken | undefined>) => {
  const { config, db, clock, cryptography } = core;
  const verify = createVerifySubjectToken(config.workloadIssuers, { clock });
  return async (token, use) => {
    const { issuer, payload } = await verify(token).catch(refuseRejected);
    use.attestation = claimantOf(payload);
    // Without the signature, of which other encodings are valid too: each would be another token.
    const tokenSha256 = await cryptography.sha256Hex(token.slice(0, token.lastIndexOf(".")));
    const known = await findPresentedToken(db, tokenSha256);
    if (known !== undefined) return known;

    const now = clock.now();
    const policies = await findWorkloadPolicies(db, issuer.issuer);
    const policy =
      policies.find(({ workload }) => attest(workload, payload) !== null) ?? policies[0];
    const workload = policy?.workload ?? null;
    enforce(attestationRules, { workload, issuers: config.workloadIssuers, payload, now });
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
