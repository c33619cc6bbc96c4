/**
 * The rules of enrollment, in the order in which they decide. Enrollment throws the first refusal; a simulation reports every rule. Nothing
 * else admits a host.
 */

import type { Attestation } from "#drizzle/schema/enrollment.ts";
import type { IdentityRow } from "#functions/store/certificate/identities.ts";
import type { PolicyRow, TokenTerms } from "#functions/store/enrollment/policies.ts";
import { addressAllowed } from "#kit/address.ts";
import { composeIdentity } from "#proto/identity.ts";
import type { AgentKind } from "#proto/values.ts";
import { tokenState } from "./bootstrap-token.ts";
import { EnrollmentRefusal } from "./refuse.ts";

/** The result of a rule: a sentence for operators, and the refusal unless the use passes. */
export interface Finding {
  detail: string;
  refusal: EnrollmentRefusal | null;
}

/** One rule. Returns null if it does not apply. */
export interface Rule<Facts> {
  name: string;
  find(facts: Facts): Finding | null;
}

/** The token of a use. A simulation may have none: then the rules of tokens do not apply. */
type GivenToken<Row = TokenTerms> = Row | "unknown" | "not_given";

/** The facts of `admissionRules`. */
export interface AdmissionFacts {
  policy: Pick<PolicyRow, "frozenAt" | "allowedSourceCidrs">;
  token: GivenToken;
  remoteAddress: string;
  now: number;
}

/** The facts of `identityRules`. */
export interface IdentityFacts {
  identity: string;
  identityBytesMax: number;
}

/** The facts of `reenrollmentRules`. */
export interface ReenrollmentFacts {
  policy: PolicyRow;
  /** Undefined for an identity that has never enrolled. */
  known: IdentityRow | undefined;
  /** Whether the identity has an active certificate. */
  isInUse: boolean;
  /** Of a service account token; null for a bootstrap token. */
  attestation: Attestation | null;
  /** Null in a simulation, which names none. */
  agent: AgentKind | null;
}

/** The facts of `deviceRules`. */
export interface DeviceFacts {
  policy: PolicyRow;
  token: GivenToken;
  identity: string;
  deviceId: string;
  platform: string;
  /** Whether another enrollment of the identity is under way. */
  isReserved: boolean;
  /** Reserved uses of the token. */
  heldByToken: number;
}

/** The facts of `firstEnrollmentRules`. */
export interface FirstEnrollmentFacts {
  policy: PolicyRow;
  known: IdentityRow | undefined;
  /** Reserved first enrollments of the policy. */
  heldFirsts: number;
  /** First enrollments of the policy in the past hour. */
  lastHour: number;
}

/** Throws the first refusal of the rules. */
export const enforce = <Facts>(rules: readonly Rule<Facts>[], facts: Facts): void => {
  for (const rule of rules) {
    const refusal = rule.find(facts)?.refusal;
    if (refusal) throw refusal;
  }
};

/** The refusal of a token that core has not issued. */
export const unknownToken = (): EnrollmentRefusal =>
  new EnrollmentRefusal("token_invalid", { reason: "token_unknown" });

const passed = (detail: string): Finding => ({ detail, refusal: null });

const refused = (
  detail: string,
  ...refusal: ConstructorParameters<typeof EnrollmentRefusal>
): Finding => ({ detail, refusal: new EnrollmentRefusal(...refusal) });

const rulesOf = <Facts>(finders: Readonly<Record<string, Rule<Facts>["find"]>>) =>
  Object.entries(finders).map(([name, find]): Rule<Facts> => ({ name, find }));

const rowOf = <Row extends object>(token: GivenToken<Row>): Row | null =>
  typeof token === "string" ? null : token;

/** The token and the policy may be used from the address. Checked before the body is read, at the reservation, and at the record. */
export const admissionRules = rulesOf<AdmissionFacts>({
  token_known: ({ token }) => {
    if (token === "not_given") return null;
    if (token !== "unknown") return passed("the policy has issued the token");
    return { detail: "the policy has issued no such token", refusal: unknownToken() };
  },
  token_active: ({ token: given, now }) => {
    const token = rowOf(given);
    if (token === null) return null;
    const state = tokenState(token, now);
    if (state !== "revoked" && state !== "expired")
      return passed(`the token is valid until ${token.expiresAt.toISOString()}`);
    const since = (token.revokedAt ?? token.expiresAt).toISOString();
    return refused(
      `the token ${state === "revoked" ? "was revoked" : "expired"} at ${since}`,
      "token_invalid",
      { reason: `token_${state}` },
    );
  },
  policy_active: ({ policy: { frozenAt } }) => {
    if (frozenAt === null) return passed("the policy is not frozen");
    return refused(`the policy was frozen at ${frozenAt.toISOString()}`, "policy_frozen");
  },
  policy_source_cidrs: ({ policy, remoteAddress }) =>
    sourceFinding("the policy", policy.allowedSourceCidrs, remoteAddress),
  token_source_cidrs: ({ token: given, remoteAddress }) => {
    const token = rowOf(given);
    return token && sourceFinding("the token", token.allowedSourceCidrs, remoteAddress);
  },
});

const sourceFinding = (whose: string, cidrs: readonly string[], address: string): Finding => {
  if (addressAllowed(cidrs, address))
    return passed(
      cidrs.length === 0 ? `${whose} allows any address` : `${whose} allows ${address}`,
    );
  return refused(`${whose} allows ${cidrs.join(", ")}, and not ${address}`, "source_not_allowed");
};

/** The identity fits the column and the protocol. Checked before the reservation. */
export const identityRules = rulesOf<IdentityFacts>({
  identity_length: ({ identity, identityBytesMax }) => {
    if (identity.length <= identityBytesMax)
      return passed(`the identity has ${identity.length} bytes`);
    return refused(
      `the identity has ${identity.length} bytes, more than ${identityBytesMax}`,
      "identity_not_allowed",
      {
        reason: "identity_too_long",
        detail: `The identity is longer than ${identityBytesMax} bytes`,
      },
    );
  },
});

/** The device may use the token and the policy. Checked at the reservation. */
export const deviceRules = rulesOf<DeviceFacts>({
  no_other_enrollment: ({ isReserved }) =>
    isReserved
      ? refused(
          "another enrollment of the identity is under way, for at most a minute",
          "enrollment_in_progress",
        )
      : passed("no other enrollment of the identity is under way"),
  token_uses: ({ token: given, heldByToken }) => {
    const token = rowOf(given);
    if (token === null) return null;
    if (token.maxUses === 0) return passed("the token has no limit of uses");
    const used = token.useCount + heldByToken;
    const detail = `${used} of the token's ${token.maxUses} uses are taken`;
    if (used < token.maxUses) return passed(detail);
    return refused(detail, "token_invalid", { reason: "token_exhausted" });
  },
  identity_prefix: ({ policy: { allowedIdentityPrefixes: prefixes }, deviceId, identity }) =>
    prefixes.some((prefix) => composeIdentity(prefix, deviceId) === identity)
      ? passed(`the policy allows ${identity}`)
      : refused(
          `the policy allows ${prefixes.join(", ")} followed by the device id, and not ${identity}`,
          "identity_not_allowed",
          // E4: only a caller with a valid token reaches this rule.
          { detail: `The policy allows ${prefixes.join(", ")} followed by the device id` },
        ),
  token_device: ({ token: given, deviceId }) => {
    const token = rowOf(given);
    if (token === null) return null;
    if (token.boundDeviceId === null) return passed("the token is bound to no device");
    if (token.boundDeviceId === deviceId) return passed(`the token is bound to ${deviceId}`);
    return refused(
      `the token is bound to ${token.boundDeviceId}, and not to ${deviceId}`,
      "device_not_allowed",
    );
  },
  policy_platforms: ({ policy: { allowedPlatforms: platforms }, platform }) => {
    if (platforms.length === 0) return passed("the policy allows any platform");
    // An entry is `os` or `os/arch`.
    if (platforms.includes(platform) || platforms.includes(platform.split("/")[0] ?? ""))
      return passed(`the policy allows ${platform}`);
    return refused(
      `the policy allows ${platforms.join(", ")}, and not ${platform}`,
      "platform_not_allowed",
    );
  },
});

/** An identity may enroll again. Checked at the reservation and again at the record. */
export const reenrollmentRules = rulesOf<ReenrollmentFacts>({
  identity_not_revoked: ({ known }) => {
    if (known === undefined) return null;
    if (known.revokedAt === null) return passed("the identity is not revoked");
    return refused(
      `the identity was revoked at ${known.revokedAt.toISOString()}, which is final`,
      "identity_revoked",
      { detail: "The identity was revoked, which is final: use a new device id" },
    );
  },
  same_agent: ({ known, agent }) => {
    if (known === undefined || agent === null) return null;
    if (known.agent === agent) return passed(`the identity belongs to an agent of kind ${agent}`);
    return refused(
      `the identity belongs to an agent of kind ${known.agent}, and not ${agent}`,
      "identity_exists",
      {
        reason: "identity_of_another_agent",
        detail: `The identity belongs to an agent of kind ${known.agent}: use another device id`,
      },
    );
  },
  same_node: ({ known, isInUse, attestation }) => {
    if (known === undefined || attestation === null) return null;
    const { issuer, claims } = known.attestation ?? {};
    const refusedFor = (detail: string) =>
      refused(detail, "identity_exists", { reason: "identity_of_another_node" });
    if (issuer !== undefined && issuer !== attestation.issuer)
      return refusedFor(`the identity belongs to a node of ${issuer}`);
    if (!isInUse) return passed("the identity has no active certificate");
    if (claims?.node_uid === attestation.claims.node_uid)
      return passed("the same node has enrolled it");
    const node =
      claims?.node_uid === undefined
        ? "a bootstrap token"
        : `the node with the uid ${claims.node_uid}`;
    return refusedFor(`the identity has an active certificate, and ${node} has enrolled it`);
  },
  reenrollment: ({ policy: { reenrollment }, known, isInUse }) => {
    if (known === undefined) return null;
    if (!isInUse) return passed("the identity has enrolled before and has no active certificate");
    const detail = `the identity has an active certificate, and the policy's reenrollment is ${reenrollment}`;
    return reenrollment === "deny"
      ? refused(detail, "identity_exists")
      : passed(`${detail}: the certificate would be replaced`);
  },
});

/** The policy may admit another host. Checked at the reservation. */
export const firstEnrollmentRules = rulesOf<FirstEnrollmentFacts>({
  max_enrollments: ({ policy, known, heldFirsts }) => {
    if (known !== undefined) return null;
    if (policy.maxEnrollments === 0) return passed("the policy has no limit of hosts");
    const enrolled = policy.enrollmentCount + heldFirsts;
    const detail = `${enrolled} of the policy's ${policy.maxEnrollments} first enrollments are taken`;
    if (enrolled < policy.maxEnrollments) return passed(detail);
    return refused(detail, "enrollment_limit_reached");
  },
  max_enrollments_per_hour: ({ policy, known, heldFirsts, lastHour }) => {
    if (known !== undefined) return null;
    if (policy.maxEnrollmentsPerHour === 0)
      return passed("the policy has no limit of hosts in an hour");
    const enrolled = lastHour + heldFirsts;
    const detail = `${enrolled} of the policy's ${policy.maxEnrollmentsPerHour} first enrollments in an hour are taken`;
    if (enrolled < policy.maxEnrollmentsPerHour) return passed(detail);
    return refused(detail, "enrollment_rate_limited", { retryAfterSeconds: 60 });
  },
});
