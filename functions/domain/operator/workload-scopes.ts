import type { Scope } from "../../../proto/operator/scopes.ts";
import type { WorkloadIssuer } from "../../workload-config.ts";

/** Returns the scopes of a subject of an issuer: those of the first pattern that matches; null for none. */
export const workloadScopes = (
  issuers: readonly WorkloadIssuer[],
  { issuer, subject }: { issuer: string; subject: string },
): readonly Scope[] | null =>
  issuers.find((each) => each.issuer === issuer)?.subjects.find(({ pattern }) => matches(pattern, subject))?.scopes ??
  null;

/** `*` stands for one segment: any text without `:` and `/`, and not for none. */
const matches = (pattern: string, subject: string): boolean => {
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
