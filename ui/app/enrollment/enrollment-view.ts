import type {
  ListedPolicy,
  PolicyState,
  RefusalGroup,
  TokenState,
} from "#proto/operator/enrollment.ts";
import { auditPath } from "../audit/audit-view.ts";
import { withQuery } from "../browser/with-query.ts";
import { formatCount, formatDuration } from "../format/format.ts";

/** The states of tokens in words. */
export const tokenWords: Readonly<Record<TokenState, string>> = {
  active: "Active",
  exhausted: "Used up",
  policy_frozen: "Policy frozen",
  expired: "Expired",
  revoked: "Revoked",
};

/** The states in the order of the page: the one that enrolls hosts first. */
export const tokenStatesShown = Object.keys(tokenWords) as TokenState[];

/** The states of policies in words. */
export const policyWords: Readonly<Record<PolicyState, string>> = {
  active: "Active",
  frozen: "Frozen",
};

/** Returns the address of the tokens of a policy, in a state if it is given. */
export const tokensPath = (filter: { state?: TokenState; policy_id: string }): string =>
  `${withQuery("/access/enrollment", filter)}#tokens`;

/** Returns how many of its limit are used: `3 of 20`, or `3, no limit`. */
export const usesOf = (used: number, max: number): string =>
  max === 0 ? `${formatCount(used)}, no limit` : `${formatCount(used)} of ${formatCount(max)}`;

/**
 * Returns the address of the first enrollments under a policy, which it counts: a host that enrolls again is not another one. The audit log
 * finds a text of an event's details, whose members PostgreSQL orders by the length of their names.
 */
export const enrolledPath = ({
  id,
  created_at: since,
}: Pick<ListedPolicy, "id" | "created_at">): string =>
  auditPath({
    action: "collector.enroll",
    outcome: "success",
    since,
    q: `"policy_id": "${id}", "reenrolled": false`,
  });

/** Returns what a policy allows, in words. */
export const policyRules = (policy: ListedPolicy): string[] => [
  policy.allowed_identity_prefixes.join(", "),
  `certificates for ${formatDuration(policy.certificate_ttl_seconds)}`,
  ...(policy.allowed_platforms.length > 0 ? [policy.allowed_platforms.join(", ")] : []),
  ...(policy.allowed_source_cidrs.length > 0
    ? [`from ${policy.allowed_source_cidrs.join(", ")}`]
    : []),
  `re-enrollment: ${policy.reenrollment}`,
  ...(policy.workload === null ? [] : [`service account tokens of ${policy.workload.issuer}`]),
  ...(policy.max_enrollments_per_hour > 0
    ? [`${formatCount(policy.max_enrollments_per_hour)} an hour at most`]
    : []),
];

/** The refusals of one reason. */
export interface CountedReason {
  reason: string;
  events: number;
  refused: number;
  lastAt: string;
  lastAddress: string | null;
  /** By policy; the last one has none. */
  policies: readonly RefusalGroup[];
}

/** Returns the refusals by reason, those with the most refused requests first. */
export const refusalReasons = (groups: readonly RefusalGroup[]): CountedReason[] =>
  [...Map.groupBy(groups, ({ reason }) => reason)]
    .map(([reason, own]) => {
      const sum = (figure: "events" | "refused") =>
        own.reduce((total, group) => total + group[figure], 0);
      const last = own.toSorted((a, b) => (a.last_at < b.last_at ? 1 : -1))[0];
      return {
        reason,
        events: sum("events"),
        refused: sum("refused"),
        lastAt: last?.last_at ?? "",
        lastAddress: last?.last_address ?? null,
        policies: own.toSorted(
          (a, b) => Number(a.policy_id === null) - Number(b.policy_id === null),
        ),
      };
    })
    .sort((a, b) => b.refused - a.refused || (a.reason < b.reason ? -1 : 1));

/** Returns the address of the audit events of a reason, of one policy if it is given, in the time of the report. */
export const refusalEventsPath = (
  { since, generated_at: until }: { since: string; generated_at: string },
  { reason, policyId }: { reason: string; policyId?: string },
): string =>
  auditPath({
    action: "collector.enroll",
    outcome: "failure",
    reason,
    since,
    until,
    q: policyId,
  });

/** Returns a reason's code in words. */
export const reasonWords = (reason: string): string =>
  reason === "" ? "no reason recorded" : reason.replaceAll("_", " ");
