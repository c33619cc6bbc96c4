/**
 * The halves of an enrollment: a reservation under every limit, and the record of its certificate. Invariants:
 * - Decisions on one policy are made one after the other under its lock, and each counts the earlier reservations.
 * - The record checks token, policy and identity again under the locks that revocation and freeze take.
 * - Counts, identity, certificate and audit event commit together.
 * - The refusal of one request releases its reservation and does not affect the others of its transaction.
 */

import type { Core } from "#functions/core.ts";
import { type IssuedCertificate, issuedBefore } from "#functions/signer/signer.ts";
import {
  type CertificateRow,
  findEnrolledCertificates,
  findFingerprints,
  type Issued,
  insertCertificates,
  issuedRow,
  updateActiveReplaced,
} from "#functions/store/certificate/certificates.ts";
import {
  countTowardsHourlyLimits,
  type EnrolledIdentity,
  type IdentityRow,
  insertIdentities,
  updateIdentityReenrolled,
} from "#functions/store/certificate/identities.ts";
import type { Executor } from "#functions/store/database/database.ts";
import {
  countReservations,
  deleteReservations,
  findReserved,
  insertReservations,
  type ReservationRow,
} from "#functions/store/enrollment/enrollments.ts";
import {
  addEnrollments,
  addTokenUses,
  findTokenTerms,
  type PolicyRow,
  type TokenTerms,
} from "#functions/store/enrollment/policies.ts";
import { hourMs, minuteMs } from "#kit/clock.ts";
import { type Entropy, uuidv7 } from "#kit/entropy.ts";
import type { AgentKind } from "#proto/values.ts";
import { type AuditEntry, type Origin, recordAudits } from "../audit/audit-log.ts";
import { catchRefusal, EnrollmentRefusal, type Refused, workloadDetail } from "./refuse.ts";
import {
  admissionRules,
  deviceRules,
  enforce,
  firstEnrollmentRules,
  type ReenrollmentFacts,
  reenrollmentRules,
  unknownToken,
} from "./use-rules.ts";

/** The lifetime of a reservation, within which the signer must finish. */
const reservationMs = minuteMs;
/** A retry within this time returns the certificate that was already issued, because the first response may have been lost. */
const retryMs = 10 * minuteMs;

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
  agent: AgentKind;
  remoteAddress: string;
}

/** A request for a reservation, and its token. */
export interface ReserveRequest {
  request: EnrollmentRequest;
  tokenId: string;
  policyId: string;
}

/** The decision of the first transaction: a reservation to sign for, or the certificate already issued for this request. */
export type Reserved =
  | { kind: "reserved"; reservation: ReservationRow; policy: PolicyRow }
  | ({ kind: "issued" } & Issued);

/** `ids`: the randomness of ids and serial numbers, which are public. */
type Needs = Pick<Core, "clock"> & { ids: Entropy };

/** The rows that a transaction has locked for its requests, and the identities that have an active certificate. */
export interface Locked {
  policies: ReadonlyMap<string, PolicyRow>;
  identities: ReadonlyMap<string, IdentityRow>;
  identitiesInUse: ReadonlySet<string>;
}

/** The second half of a step, which decides and writes once its transaction has read everything. */
type Write<Outcome> = () => Promise<(Outcome | Refused)[]>;

/** Reads the facts for reservations under the policies' locks. Returns the function that reserves a use for each admitted request. */
export const readForReservations = async (
  tx: Executor,
  needs: Needs,
  {
    requests,
    locked,
    now,
  }: { requests: readonly ReserveRequest[]; locked: Promise<Locked>; now: number },
): Promise<Write<Reserved>> => {
  if (requests.length === 0) return async () => [];
  const facts = await loadFacts(tx, requests, { locked, now });
  return () =>
    storeReservations(
      tx,
      requests.map((each) => catchRefusal(() => decide(facts, needs, each, now))),
    );
};

/** Stores the reservations of the admitted requests, and refuses those whose identity has another one. */
const storeReservations = async (tx: Executor, decisions: readonly (Reserved | Refused)[]) => {
  const reservations = decisions.flatMap((decision) =>
    decision.kind === "reserved" ? [decision.reservation] : [],
  );
  const inserted = await insertReservations(tx, reservations);
  return decisions.map((decision): Reserved | Refused =>
    decision.kind === "reserved" && !inserted.has(decision.reservation.id)
      ? { kind: "refused", refusal: new EnrollmentRefusal("enrollment_in_progress") }
      : decision,
  );
};

/** The facts for a decision. The counts grow with each reservation. */
interface Facts extends Locked {
  tokens: ReadonlyMap<string, TokenTerms>;
  enrolled: readonly CertificateRow[];
  reserved: ReadonlySet<string>;
  heldByToken: Map<string, number>;
  firstsByPolicy: Map<string, number>;
  lastHourByPolicy: ReadonlyMap<string, number>;
}

/** Reads under the policies' locks: the counts cannot grow until the commit. */
const loadFacts = async (
  tx: Executor,
  requests: readonly ReserveRequest[],
  { locked, now }: { locked: Promise<Locked>; now: number },
): Promise<Facts> => {
  const at = new Date(now);
  const policyIds = [...new Set(requests.map(({ policyId }) => policyId))];
  const tokenIds = [...new Set(requests.map(({ tokenId }) => tokenId))];
  const names = requests.map(({ request }) => request.identity);
  const keys = requests.map(({ request }) => request.spkiSha256);
  const [rows, tokens, enrolled, reserved, held, lastHourByPolicy] = await Promise.all([
    locked,
    // Not locked: uses are counted under the policy's lock, and the record checks again for a revocation.
    findTokenTerms(tx, tokenIds, { lock: false }),
    findEnrolledCertificates(tx, { tokenIds, keys, since: new Date(now - retryMs) }),
    findReserved(tx, names, at),
    countReservations(tx, policyIds, at),
    countTowardsHourlyLimits(
      tx,
      { policyIds, upcomingEnrollments: requests.length },
      new Date(now - hourMs),
    ),
  ]);
  const firstsByPolicy = new Map<string, number>();
  for (const { policyId, first } of held) addCount(firstsByPolicy, policyId, first);
  return {
    ...rows,
    tokens,
    enrolled,
    reserved,
    heldByToken: new Map(held.map((row) => [row.tokenId, row.held])),
    firstsByPolicy,
    lastHourByPolicy,
  };
};

const addCount = (counts: Map<string, number>, key: string, count: number) => {
  counts.set(key, (counts.get(key) ?? 0) + count);
};

/**
 * Decides on a request. Order: token revoked or expired, frozen, address; a retry of the same key; exhaustion, identity, device, platform;
 * re-enrollment; limits. Throws `EnrollmentRefusal`.
 */
const decide = (
  facts: Facts,
  { clock, ids }: Needs,
  asked: ReserveRequest,
  now: number,
): Reserved => {
  const { request } = asked;
  const { policy, token } = checkTokenUse(
    facts.policies.get(asked.policyId),
    facts.tokens.get(asked.tokenId),
    request.remoteAddress,
    now,
  );
  const identity = facts.identities.get(request.identity);
  const issued = facts.enrolled.find(
    (row) => row.tokenId === token.id && row.identityId === identity?.id && isSameKey(row, request),
  );
  if (issued && identity && identity.revokedAt === null)
    return { kind: "issued", certificate: issued, identity };
  const { deviceId, platform } = request;
  const heldByToken = facts.heldByToken.get(token.id) ?? 0;
  const isReserved = facts.reserved.has(request.identity);
  enforce(deviceRules, {
    policy,
    token,
    identity: request.identity,
    deviceId,
    platform,
    isReserved,
    heldByToken,
  });
  const isInUse = identity !== undefined && facts.identitiesInUse.has(identity.id);
  checkReenrollment(token, request, { policy, known: identity, isInUse });
  const heldFirsts = facts.firstsByPolicy.get(policy.id) ?? 0;
  const lastHour = facts.lastHourByPolicy.get(policy.id) ?? 0;
  enforce(firstEnrollmentRules, { policy, known: identity, heldFirsts, lastHour });

  addCount(facts.heldByToken, token.id, 1);
  if (identity === undefined) addCount(facts.firstsByPolicy, policy.id, 1);
  const reservation: ReservationRow = {
    id: uuidv7({ clock, entropy: ids }),
    policyId: policy.id,
    tokenId: token.id,
    identity: request.identity,
    spkiSha256: request.spkiSha256,
    firstEnrollment: identity === undefined,
    serialNumber: ids.bytes(16).toHex(),
    expiresAt: new Date(now + reservationMs),
  };
  return { kind: "reserved", reservation, policy };
};

const isSameKey = (row: CertificateRow, { spkiSha256 }: EnrollmentRequest) =>
  row.spkiSha256.toHex() === spkiSha256.toHex();

/**
 * Returns the policy and token of a use that may enroll: the token is neither revoked nor expired, the policy is not frozen, both allow
 * the address. Checked at the reservation and again at the record. Throws `EnrollmentRefusal`.
 */
export const checkTokenUse = <Policy extends Pick<PolicyRow, "frozenAt" | "allowedSourceCidrs">>(
  policy: Policy | undefined,
  token: TokenTerms | undefined,
  remoteAddress: string,
  now: number,
): { policy: Policy; token: TokenTerms } => {
  if (policy === undefined || token === undefined) throw unknownToken();
  enforce(admissionRules, { policy, token, remoteAddress, now });
  return { policy, token };
};

/** Throws `EnrollmentRefusal` unless an identity, if it is known, may enroll again. Checked at the reservation and again at the record. */
const checkReenrollment = (
  { attestation }: TokenTerms,
  { agent }: EnrollmentRequest,
  facts: Omit<ReenrollmentFacts, "attestation" | "agent">,
): void => enforce(reenrollmentRules, { ...facts, attestation, agent });

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

/** Reads and decides which certificates may be recorded: a refusal may have arisen while the signer ran. Returns the function that records them. */
export const readForRecords = async (
  tx: Executor,
  needs: RecordNeeds,
  { issues, locked, now }: { issues: readonly Issue[]; locked: Promise<Locked>; now: number },
): Promise<Write<Recorded>> => {
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
      checkReenrollment(token, request, { policy, known, isInUse });
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
    agent: request.agent,
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
