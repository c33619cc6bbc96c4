import type { ReadCore } from "#functions/core.ts";
import { type ProblemCode, requireFound } from "#functions/problems.ts";
import { findIdentitiesInUse } from "#functions/store/certificate/certificates.ts";
import { countEnrolledSince, findIdentityByName } from "#functions/store/certificate/identities.ts";
import type { Executor } from "#functions/store/database/database.ts";
import { planByIndex } from "#functions/store/database/statements.ts";
import { countReservations, findReserved } from "#functions/store/enrollment/enrollments.ts";
import {
  findPolicy,
  findTokenOfPolicy,
  type TokenTerms,
} from "#functions/store/enrollment/policies.ts";
import { hourMs } from "#kit/clock.ts";
import { composeIdentity } from "#proto/identity.ts";
import type { Labels } from "#proto/labels.ts";
import {
  type AttestationFacts,
  type Attested,
  attest,
  attestationRules,
  type TokenPayload,
} from "./attestation-rules.ts";
import {
  type AdmissionFacts,
  admissionRules,
  type DeviceFacts,
  deviceRules,
  type FirstEnrollmentFacts,
  firstEnrollmentRules,
  type IdentityFacts,
  identityRules,
  type ReenrollmentFacts,
  type Rule,
  reenrollmentRules,
} from "./use-rules.ts";

/** The use of a policy to simulate. */
interface SimulatedUse {
  policyId: string;
  /** Null for the device that the service account token names. */
  deviceId: string | null;
  remoteAddress: string;
  platform: string;
  /** Null for the policy's first prefix. */
  identityPrefix: string | null;
  /** The SHA-256 of a bootstrap token, or of a service account token without its signature. Null skips checks that need the stored token. */
  tokenSha256: Uint8Array | null;
  /** The payload of a service account token, whose signature is not checked; null for a bootstrap token. */
  payload: TokenPayload | null;
}

/** The result of one rule. */
interface SimulatedCheck {
  rule: string;
  outcome: "passed" | "refused" | "not_applicable";
  detail: string;
}

/** The decision on a simulated use, by the rules of enrollment in their order. */
interface Simulation {
  /** Null for a service account token that names no device. */
  identity: string | null;
  /** The labels that the policy would give the host. */
  labels: Labels;
  allowed: boolean;
  /** The problem code of the first rule that refuses, and the rule. */
  code: ProblemCode | null;
  rule: string | null;
  detail: string;
  checks: SimulatedCheck[];
}

type Facts = AttestationFacts &
  AdmissionFacts &
  IdentityFacts &
  DeviceFacts &
  ReenrollmentFacts &
  FirstEnrollmentFacts;

/**
 * Reports whether a device could enroll now, and the result of each rule. Reads from one snapshot, locks and writes nothing. Throws 404
 * `not_found` for an unknown policy.
 */
export const simulateEnrollment = ({ db, clock, config }: ReadCore, use: SimulatedUse) =>
  db.transaction(
    async (tx): Promise<Simulation> => {
      await planByIndex(tx);
      const now = clock.now();
      const at = new Date(now);
      const { payload, platform, remoteAddress } = use;
      const policy = requireFound(await findPolicy(tx, use.policyId));
      const { workload } = policy;
      const attested = workload && payload && attest(workload, payload);
      const labels = { ...policy.labels, ...attested?.attestation.labels };
      const tokenFacts: AttestationFacts = {
        workload,
        issuers: config.workloadIssuers(),
        payload,
        now,
      };
      const deviceId = use.deviceId ?? attested?.deviceId;
      if (deviceId === undefined)
        return { identity: null, labels, ...decisionOf(attestationRules, tokenFacts) };
      const identity = composeIdentity(
        use.identityPrefix ?? policy.allowedIdentityPrefixes[0] ?? "",
        deviceId,
      );
      const token = await usedToken(tx, use, policy.id, attested, now);
      const known = await findIdentityByName(tx, identity);
      const inUse = await findIdentitiesInUse(tx, [identity], at);
      const reserved = await findReserved(tx, [identity], at);
      const held = await countReservations(tx, [policy.id], at);
      const lastHour = await countEnrolledSince(tx, policy.id, new Date(now - hourMs));
      const facts: Facts = {
        ...tokenFacts,
        policy,
        token,
        remoteAddress,
        now,
        identity,
        identityBytesMax: config.hostIdBytesMax,
        deviceId,
        platform,
        isReserved: reserved.has(identity),
        heldByToken: heldBy(token, held),
        known,
        isInUse: known !== undefined && inUse.has(known.id),
        attestation: attested?.attestation ?? null,
        agent: null,
        heldFirsts: held.reduce((sum, { first }) => sum + first, 0),
        lastHour,
      };
      return { identity, labels, ...decisionOf(allRules, facts) };
    },
    { accessMode: "read only", isolationLevel: "repeatable read" },
  );

/** Returns the stored token, or how core would store a service account token. */
const usedToken = async (
  tx: Executor,
  { tokenSha256 }: SimulatedUse,
  policyId: string,
  attested: Attested | null | undefined,
  now: number,
): Promise<AdmissionFacts["token"]> => {
  const token = tokenSha256 && (await findTokenOfPolicy(tx, policyId, tokenSha256));
  if (token) return token;
  if (attested) return tokenOf(attested, policyId, now);
  return tokenSha256 === null ? "not_given" : "unknown";
};

const heldBy = (
  token: AdmissionFacts["token"],
  held: Awaited<ReturnType<typeof countReservations>>,
) =>
  typeof token === "string" ? 0 : (held.find(({ tokenId }) => tokenId === token.id)?.held ?? 0);

/** Returns how core would store a service account token. */
const tokenOf = (
  { deviceId, attestation }: Attested,
  policyId: string,
  now: number,
): TokenTerms => ({
  id: "",
  policyId,
  tokenPrefix: "",
  allowedSourceCidrs: [],
  boundDeviceId: deviceId,
  maxUses: 1,
  useCount: 0,
  expiresAt: new Date(now + hourMs),
  revokedAt: null,
  attestation,
});

/** In the order in which an enrollment passes them. */
const allRules: readonly Rule<Facts>[] = [
  ...attestationRules,
  ...admissionRules,
  ...identityRules,
  ...deviceRules,
  ...reenrollmentRules,
  ...firstEnrollmentRules,
];

const decisionOf = <Given>(
  rules: readonly Rule<Given>[],
  facts: Given,
): Omit<Simulation, "identity" | "labels"> => {
  const findings = rules.map(({ name, find }) => ({ rule: name, finding: find(facts) }));
  const decisive = findings.find(({ finding }) => finding?.refusal);
  const checks = findings.map(({ rule, finding }): SimulatedCheck => {
    if (finding === null) return { rule, outcome: "not_applicable", detail: notApplicable(rule) };
    return {
      rule,
      outcome: finding.refusal === null ? "passed" : "refused",
      detail: finding.detail,
    };
  });
  return {
    allowed: decisive === undefined,
    code: decisive?.finding?.refusal?.problem.code ?? null,
    rule: decisive?.rule ?? null,
    detail: decisive?.finding?.detail ?? "every rule passes",
    checks,
  };
};

const notApplicable = (rule: string) => {
  if (rule.startsWith("workload_")) return "no service account token was given";
  if (rule === "same_node")
    return "the identity has never enrolled, or no service account token was given";
  if (rule === "same_agent") return "a simulation names no agent";
  if (rule.startsWith("token_")) return "no token was given";
  return rule.startsWith("max_")
    ? "the identity has enrolled before"
    : "the identity has never enrolled";
};
