/**
 * The second half of an enrollment: the record of its certificate. Invariants:
 * - Token, policy and identity are checked again under the locks that revocation and freeze take.
 * - Counts, identity, certificate and audit event commit together.
 * - The refusal of one request releases its reservation and does not affect the others of its transaction.
 */

import type { Core } from "#functions/core.ts";
import { type IssuedCertificate, issuedBefore } from "#functions/signer/signer.ts";
import {
  type CertificateRow,
  findFingerprints,
  type Issued,
  insertCertificates,
  issuedRow,
  updateActiveReplaced,
} from "#functions/store/certificate/certificates.ts";
import {
  type EnrolledIdentity,
  insertIdentities,
  updateIdentityReenrolled,
} from "#functions/store/certificate/identities.ts";
import type { Executor } from "#functions/store/database/database.ts";
import {
  deleteReservations,
  type ReservationRow,
} from "#functions/store/enrollment/enrollments.ts";
import {
  addEnrollments,
  addTokenUses,
  findTokenTerms,
} from "#functions/store/enrollment/policies.ts";
import { type Entropy, uuidv7 } from "#kit/entropy.ts";
import { type AuditEntry, type Origin, recordAudits } from "../audit/audit-log.ts";
import { catchRefusal, EnrollmentRefusal, type Refused, workloadDetail } from "./refuse.ts";
import {
  checkReenrollment,
  checkTokenUse,
  type EnrollmentRequest,
  type Locked,
} from "./reserve.ts";
import type { ReenrollmentFacts } from "./use-rules.ts";

/** A certificate that was signed for a reservation. */
export interface Issue {
  request: EnrollmentRequest;
  reservation: ReservationRow;
  issued: IssuedCertificate;
  /** When it was requested, milliseconds since the epoch. */
  now: number;
  origin: Origin;
}

/** The dependencies of a record. `ids`: the randomness of the ids of identities and certificates. */
export type RecordNeeds = Pick<Core, "clock" | "entropy"> & { ids: Entropy };

/** A recorded certificate. */
export type Recorded = { kind: "recorded" } & Issued;

/** The rows of one enrollment. */
interface Plan {
  kind: "plan";
  issue: Issue;
  /** Whether the identity has enrolled before. */
  isKnown: boolean;
  identity: EnrolledIdentity;
  certificate: CertificateRow;
}

/**
 * Reads what decides on the records. Returns the function that records all certificates, except where a refusal arose while the signer ran.
 */
export const readForRecords = async (
  tx: Executor,
  needs: RecordNeeds,
  { issues, locked, now }: { issues: readonly Issue[]; locked: Promise<Locked>; now: number },
): Promise<() => Promise<(Recorded | Refused)[]>> => {
  if (issues.length === 0) return async () => [];
  const reservations = issues.map(({ reservation }) => reservation);
  const [{ policies, identities, identitiesInUse }, tokens, held, fingerprints] = await Promise.all(
    [
      locked,
      findTokenTerms(tx, [...new Set(reservations.map(({ tokenId }) => tokenId))], { lock: true }),
      deleteReservations(
        tx,
        reservations.map(({ id }) => id),
      ),
      findFingerprints(
        tx,
        issues.map(({ issued }) => issued.fingerprintSha256),
      ),
    ],
  );
  const plans = issues.map((issue) =>
    catchRefusal((): Plan => {
      const { request, reservation, issued, origin } = issue;
      const { policyId, tokenId } = reservation;
      const { policy, token } = checkTokenUse(
        policies.get(policyId),
        tokens.get(tokenId),
        origin.remoteAddress,
        now,
      );
      if (!held.has(reservation.id)) throw new EnrollmentRefusal("enrollment_in_progress");
      const known = identities.get(request.identity);
      // After this reservation expired, another policy may have enrolled the identity under its own lock.
      const isInUse = known !== undefined && identitiesInUse.has(known.id);
      checkReenrollment({ policy, known, isInUse, attestation: token.attestation });
      if (fingerprints.has(issued.fingerprintSha256)) {
        throw new EnrollmentRefusal("signer_failed", { cause: issuedBefore() });
      }
      return planOf(issue, { known, attestation: token.attestation }, needs, now);
    }),
  );
  return async () => {
    const recorded = plans.filter((plan) => plan.kind === "plan");
    await writePlans(tx, needs, recorded, now);
    return plans.map((plan) =>
      plan.kind === "refused"
        ? plan
        : { kind: "recorded", identity: plan.identity, certificate: plan.certificate },
    );
  };
};

const planOf = (
  issue: Issue,
  { known, attestation }: Pick<ReenrollmentFacts, "known" | "attestation">,
  { ids }: RecordNeeds,
  now: number,
): Plan => {
  const { request, reservation, issued } = issue;
  const { hostname, platform, collectorVersion } = request;
  const { policyId, tokenId } = reservation;
  const idNeeds = { clock: { now: () => now }, entropy: ids };
  const newcomer = {
    id: uuidv7(idNeeds),
    identity: request.identity,
    deviceId: request.deviceId,
    enrolledAt: new Date(now),
    revokedAt: null,
    lastAuthFailureAt: null,
    lastAuthFailureReason: null,
  };
  const identity = {
    ...(known ?? newcomer),
    policyId,
    tokenId,
    hostname,
    platform,
    collectorVersion,
    attestation,
  };
  const id = uuidv7(idNeeds);
  const facts = { id, identityId: identity.id, predecessorId: null, tokenId, issuedAt: issue.now };
  const certificate = issuedRow(issued, { ...facts, spkiSha256: request.spkiSha256 });
  return { kind: "plan", issue, isKnown: known !== undefined, identity, certificate };
};

const writePlans = async (
  tx: Executor,
  needs: RecordNeeds,
  plans: readonly Plan[],
  now: number,
) => {
  const at = new Date(now);
  const first = plans.filter(({ isKnown }) => !isKnown);
  // In the order of ids, the order in which every transaction locks several hosts.
  const again = plans
    .filter(({ isKnown }) => isKnown)
    .toSorted((a, b) => (a.identity.id < b.identity.id ? -1 : 1));
  // Sent together, and none may follow a failed one. The updates may arrive after the inserts.
  await Promise.all([
    ...again.map(({ identity }) => updateIdentityReenrolled(tx, identity.id, identity)),
    ...again.map(({ identity, certificate }) =>
      updateActiveReplaced(tx, identity.id, { by: certificate.id, at }),
    ),
    addEnrollments(
      tx,
      groupsOf(first, ({ identity }) => identity.policyId).map(([id, { length }]) => ({
        id,
        enrollments: length,
      })),
    ),
    addTokenUses(
      tx,
      groupsOf(plans, ({ identity }) => identity.tokenId).map(([id, group]) => ({
        id,
        uses: group.length,
        address: group.at(-1)?.issue.origin.remoteAddress ?? "",
      })),
      at,
    ),
    insertIdentities(
      tx,
      first.map(({ identity }) => identity),
    ),
    insertCertificates(
      tx,
      plans.map(({ certificate }) => certificate),
    ),
    recordAudits(tx, needs, plans.map(entryOf)),
  ]);
};

const groupsOf = (
  plans: readonly Plan[],
  keyOf: (plan: Plan) => string,
): [key: string, group: Plan[]][] => [...Map.groupBy(plans, keyOf)];

const entryOf = ({
  isKnown,
  identity,
  certificate,
  issue: { issued, origin },
}: Plan): AuditEntry => ({
  actor: { type: "collector", id: identity.id, display: identity.identity },
  action: "collector.enroll",
  target: { type: "collector_identity", id: identity.id },
  outcome: "success",
  origin,
  details: {
    policy_id: identity.policyId,
    token_id: identity.tokenId,
    certificate_id: certificate.id,
    fingerprint_sha256: issued.fingerprintSha256,
    not_after: certificate.notAfter.toISOString(),
    reenrolled: isKnown,
    ...workloadDetail(identity.attestation),
  },
});
