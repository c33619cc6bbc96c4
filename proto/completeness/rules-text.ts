import type { RuleCounts } from "./account.ts";

/** Describes what rules took of records: `no-debug dropped 340, cards redacted 12`; "" for nothing. */
export const rulesText = (
  rules: readonly (RuleCounts & { rule: string })[],
  format: (count: number) => string = String,
): string =>
  rules
    .flatMap(({ rule, filtered, redacted }) => [
      ...(filtered > 0 ? [`${rule} dropped ${format(filtered)}`] : []),
      ...(redacted > 0 ? [`${rule} redacted ${format(redacted)}`] : []),
    ])
    .join(", ");
