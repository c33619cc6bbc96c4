/** Decides which service account tokens a policy admits. Enrollment throws the first refusal; a simulation reports every rule. */

import * as v from "valibot";
import type { Attestation } from "#drizzle/schema/enrollment.ts";
import type { WorkloadIssuer } from "#functions/config/workload-config.ts";
import { leewaySeconds } from "#kit/verify-issuer-token.ts";
import { type BoundClaim, deviceIdOf, type WorkloadTerms } from "#proto/operator/workload.ts";
import { findRule, ruleClaims } from "../operator/workload-scopes.ts";
import type { RejectedToken } from "../workload/verify-subject-token.ts";
import { type Claimant, EnrollmentRefusal } from "./refuse.ts";
import type { Finding, Rule } from "./use-rules.ts";

/** The payload of a service account token. */
export type TokenPayload = Readonly<Record<string, unknown>>;

/** The facts of `attestationRules`. */
export interface AttestationFacts {
  workload: WorkloadTerms | null;
  issuers: readonly WorkloadIssuer[];
  /** Null in the simulation of a bootstrap token: then no rule applies. */
  payload: TokenPayload | null;
  now: number;
}

/** Why a verified token enrolls no host: the reason of the audit event. */
type Reason = RejectedToken | "token_unbound" | "token_ttl_too_long";

/** Returns the refusal of a service account token. Its public problem is the same for all reasons. */
export const refuseToken = (reason: Reason, cause?: unknown): EnrollmentRefusal =>
  new EnrollmentRefusal("token_invalid", { reason, cause });

/** Creates a rule about tokens. `find` returns the sentence of its finding, and the reason of a refusal. */
const rule = (
  name: string,
  find: (facts: {
    terms: WorkloadTerms;
    issuer: WorkloadIssuer | undefined;
    payload: TokenPayload;
    now: number;
  }) => [detail: string, reason?: Reason],
): Rule<AttestationFacts> => ({
  name,
  find: ({ workload: terms, issuers, payload, now }): Finding | null => {
    if (payload === null) return null;
    if (terms === null) {
      const detail = "the policy admits bootstrap tokens alone";
      return { detail, refusal: refuseToken("issuer_unknown") };
    }
    const issuer = issuers.find((each) => each.issuer === terms.issuer);
    const [detail, reason] = find({ terms, issuer, payload, now });
    return { detail, refusal: reason === undefined ? null : refuseToken(reason) };
  },
});

/** The token matches the policy's `workload`. */
export const attestationRules: readonly Rule<AttestationFacts>[] = [
  rule("workload_issuer", ({ terms, issuer, payload }) => {
    if (issuer === undefined)
      return [`core does not know the policy's issuer ${terms.issuer}`, "issuer_unknown"];
    if (payload.iss === issuer.issuer) return [`the policy trusts ${issuer.issuer}`];
    return [`the policy trusts ${terms.issuer}, and not ${text(payload.iss)}`, "issuer_unknown"];
  }),
  rule("workload_audience", ({ issuer, payload }) => {
    const audiences = [payload.aud].flat();
    if (audiences.length === 1 && audiences[0] === issuer?.audience)
      return [`the token is for ${issuer?.audience}`];
    const held = audiences.map(text).join(", ");
    return [`the token is for ${held}, and not for ${issuer?.audience} alone`, "audience_mismatch"];
  }),
  rule("workload_token_ttl", ({ terms, payload, now }) => {
    const from = payload.iat;
    const until = payload.exp;
    if (typeof from !== "number" || typeof until !== "number")
      return ["the token does not say when it was issued and when it expires", "token_malformed"];
    const seconds = now / 1000;
    if (until <= seconds - leewaySeconds)
      return [`the token expired at ${isoTime(until)}`, "token_expired"];
    if (from > seconds + leewaySeconds)
      return [`the token is issued at ${isoTime(from)}`, "token_not_yet_valid"];
    const detail = `the token is valid for ${until - from} s of the policy's ${terms.max_token_ttl_seconds}`;
    return until - from <= terms.max_token_ttl_seconds ? [detail] : [detail, "token_ttl_too_long"];
  }),
  rule("workload_bound", ({ payload }) => {
    const claims = readBoundClaims(payload);
    if (claims === null) return ["the token is not bound to a pod and its node", "token_unbound"];
    return [`the token is bound to the pod ${claims.pod} on the node ${claims.node}`];
  }),
  rule("workload_rule", ({ terms, payload }) => {
    const subject = text(payload.sub);
    const attested = attest(terms, payload);
    if (attested !== null) return [`rule ${attested.rule + 1} of the policy matches ${subject}`];
    return [
      `none of the policy's ${terms.rules.length} rules matches ${subject} and its claims`,
      "subject_not_allowed",
    ];
  }),
];

const text = (value: unknown) => (typeof value === "string" ? value : "none");

const isoTime = (seconds: number) => {
  const date = new Date(seconds * 1000);
  return Number.isNaN(date.getTime()) ? "an unknown time" : date.toISOString();
};

const ClaimedText = v.pipe(v.string(), v.nonEmpty(), v.maxLength(512));
const Bound = v.object({ name: ClaimedText, uid: ClaimedText });

/** The claims that Kubernetes 1.30 or later adds to the token of a pod. */
const Payload = v.object({
  "kubernetes.io": v.object({
    namespace: ClaimedText,
    serviceaccount: v.object({ name: ClaimedText }),
    pod: Bound,
    node: Bound,
  }),
});

/** Returns the claims of the pod to which a token is bound; null without a pod, or for a pod without a node. */
const readBoundClaims = (payload: TokenPayload): Record<BoundClaim, string> | null => {
  const parsed = v.safeParse(Payload, payload);
  if (!parsed.success) return null;
  const { namespace, serviceaccount, pod, node } = parsed.output["kubernetes.io"];
  return {
    namespace,
    service_account: serviceaccount.name,
    pod: pod.name,
    pod_uid: pod.uid,
    node: node.name,
    node_uid: node.uid,
  };
};

/** Returns the workload that a verified token names, for the audit event of a refusal. */
export const claimantOf = (payload: TokenPayload): Claimant => ({
  issuer: text(payload.iss),
  subject: text(payload.sub),
  claims: readBoundClaims(payload) ?? {},
});

/** The facts that a policy derives from a token. */
export interface Attested {
  /** The index of the rule that matches. */
  rule: number;
  deviceId: string;
  attestation: Attestation;
}

/** Returns the device that a token enrolls under a policy, and its labels; null for a token without a node, or that no rule matches. */
export const attest = (
  { issuer, rules }: WorkloadTerms,
  payload: TokenPayload,
): Attested | null => {
  const bound = readBoundClaims(payload);
  if (bound === null) return null;
  const subject = text(payload.sub);
  const claims = { ...ruleClaims(rules, payload), ...bound };
  const matched = findRule(rules, { subject, claims });
  if (matched === undefined) return null;
  const { device_id: template, labels } = matched;
  const attestation = { issuer, subject, claims, labels };
  return { rule: rules.indexOf(matched), deviceId: deviceIdOf(template, bound), attestation };
};
