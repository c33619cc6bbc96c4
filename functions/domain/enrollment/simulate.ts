import { hourMs } from "../../../kit/clock.ts";
import { composeIdentity } from "../../../proto/identity.ts";
import type { Core } from "../../core.ts";
import { Problem, type ProblemCode } from "../../problems.ts";
import { findIdentitiesInUse } from "../../store/certificate/certificates.ts";
import { countEnrolledSince, findIdentityByName } from "../../store/certificate/identities.ts";
import { planByIndex } from "../../store/database/execute-prepared.ts";
import { countReservations, findReserved } from "../../store/enrollment/enrollments.ts";
import { findPolicy, findTokenOfPolicy } from "../../store/enrollment/policies.ts";
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
export interface SimulatedUse {
  policyId: string;
  deviceId: string;
  remoteAddress: string;
  platform: string;
  /** Null for the policy's first prefix. */
  identityPrefix: string | null;
  /** Null to leave out the rules of tokens. */
  tokenSha256: Uint8Array | null;
}

/** The result of one rule. */
export interface SimulatedCheck {
  rule: string;
  outcome: "passed" | "refused" | "not_applicable";
  detail: string;
}

/** The decision on a simulated use: that of enrollment, by its rules in their order. */
export interface Simulation {
  identity: string;
  allowed: boolean;
  /** The problem code of the first rule that refuses, and the rule. */
  code: ProblemCode | null;
  rule: string | null;
  detail: string;
  checks: SimulatedCheck[];
}

/**
 * Returns whether a device could enroll now, and the result of each rule. Reads from one snapshot, locks and writes nothing. Throws 404
 * `not_found` for an unknown policy.
 */
export const simulateEnrollment = ({ db, clock, config }: Pick<Core, "db" | "clock" | "config">, use: SimulatedUse) =>
  db.transaction(
    async (tx): Promise<Simulation> => {
      await planByIndex(tx);
      const now = clock.now();
      const at = new Date(now);
      const { deviceId, platform, remoteAddress } = use;
      const policy = await findPolicy(tx, use.policyId);
      if (policy === undefined) throw new Problem("not_found");
      const identity = composeIdentity(use.identityPrefix ?? policy.allowedIdentityPrefixes[0] ?? "", deviceId);
      const token =
        use.tokenSha256 === null
          ? "not_given"
          : ((await findTokenOfPolicy(tx, policy.id, use.tokenSha256)) ?? "unknown");
      const known = await findIdentityByName(tx, identity);
      const inUse = await findIdentitiesInUse(tx, [identity], at);
      const reserved = await findReserved(tx, [identity], at);
      const held = await countReservations(tx, [policy.id], at);
      const lastHour = await countEnrolledSince(tx, policy.id, new Date(now - hourMs));
      const facts: Facts = {
        policy,
        token,
        remoteAddress,
        now,
        identity,
        identityBytesMax: config.hostIdBytesMax,
        deviceId,
        platform,
        isReserved: reserved.has(identity),
        heldByToken: typeof token === "string" ? 0 : (held.find(({ tokenId }) => tokenId === token.id)?.held ?? 0),
        known,
        isInUse: known !== undefined && inUse.has(known.id),
        heldFirsts: held.reduce((sum, { first }) => sum + first, 0),
        lastHour,
      };
      return { identity, ...decisionOf(facts) };
    },
    { accessMode: "read only", isolationLevel: "repeatable read" },
  );

type Facts = AdmissionFacts & IdentityFacts & DeviceFacts & ReenrollmentFacts & FirstEnrollmentFacts;

/** In the order in which an enrollment passes them. */
const allRules: readonly Rule<Facts>[] = [
  ...admissionRules,
  ...identityRules,
  ...deviceRules,
  ...reenrollmentRules,
  ...firstEnrollmentRules,
];

const decisionOf = (facts: Facts): Omit<Simulation, "identity"> => {
  const findings = allRules.map(({ name, find }) => ({ rule: name, finding: find(facts) }));
  const decisive = findings.find(({ finding }) => finding?.refusal);
  const checks = findings.map(({ rule, finding }): SimulatedCheck => {
    if (finding === null) return { rule, outcome: "not_applicable", detail: notApplicable(rule) };
    return { rule, outcome: finding.refusal === null ? "passed" : "refused", detail: finding.detail };
  });
  return {
    allowed: decisive === undefined,
    code: decisive?.finding?.refusal?.problem.code ?? null,
    rule: decisive?.rule ?? null,
    detail: decisive?.finding?.detail ?? "every rule passes",
    checks,
  };
};

const notApplicable = (rule: string): string => {
  if (rule.startsWith("token_")) return "no token was given";
  return rule.startsWith("max_") ? "the identity has enrolled before" : "the identity has never enrolled";
};
