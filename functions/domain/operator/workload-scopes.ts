import type { WorkloadIssuer } from "#functions/config/workload-config.ts";
import type { Scope } from "#proto/operator/scopes.ts";

/** A subject of an issuer, and the claims of its token for rules. */
export interface ClaimedSubject {
  issuer: string;
  subject: string;
  claims: Readonly<Record<string, string>>;
}

/** Which workloads a rule matches: by the pattern of their subject, and each of their claims. */
interface SubjectRule {
  pattern: string;
  claims: Readonly<Record<string, string>>;
}

/** Returns the claims of a token's payload that a rule uses: text, and numbers as text. */
export const ruleClaims = (
  rules: readonly SubjectRule[],
  payload: Readonly<Record<string, unknown>>,
): Record<string, string> => {
  const names = new Set(rules.flatMap(({ claims }) => Object.keys(claims)));
  const entries = [...names].flatMap((name): [string, string][] => {
    const value = Object.hasOwn(payload, name) ? payload[name] : undefined;
    return typeof value === "string" || typeof value === "number" ? [[name, String(value)]] : [];
  });
  return Object.fromEntries(entries);
};

/** Returns the first rule whose pattern and claims match a subject. */
export const findRule = <Rule extends SubjectRule>(
  rules: readonly Rule[],
  { subject, claims }: Pick<ClaimedSubject, "subject" | "claims">,
): Rule | undefined =>
  rules.find(
    (rule) =>
      matches(rule.pattern, subject) &&
      Object.entries(rule.claims).every(
        ([name, value]) => Object.hasOwn(claims, name) && claims[name] === value,
      ),
  );

/** Returns the scopes of a subject of an issuer: those of the first rule whose pattern and claims match; null for none. */
export const workloadScopes = (
  issuers: readonly WorkloadIssuer[],
  { issuer, ...claimed }: ClaimedSubject,
): readonly Scope[] | null => {
  const subjects = issuers.find((each) => each.issuer === issuer)?.subjects ?? [];
  return findRule(subjects, claimed)?.scopes ?? null;
};

/** `*` matches one non-empty segment: any text without `:` and `/`. */
const matches = (pattern: string, subject: string) => {
  const [before = "", after] = pattern.split("*");
  if (after === undefined) return pattern === subject;
  const segment = subject.slice(before.length, subject.length - after.length);
  return (
    subject.length > before.length + after.length &&
    subject.startsWith(before) &&
    subject.endsWith(after) &&
    !/[:/]/.test(segment)
  );
};
