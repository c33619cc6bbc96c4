import type { FleetHealthRow } from "../../../../proto/fleet-health/row.ts";
import { formatBytes, formatCount } from "../../format/amount.ts";
import { formatSpan } from "../../format/time.ts";

/** A piece of evidence as it is read; `exact` is what core wrote in its place, where that differs. */
export interface EvidencePart {
  text: string;
  exact?: string;
}

const amounts = /(\d+) s\b|(\d+) of (\d+) bytes|\d{4,}(?= in all)/g;

/** What hosts say in their own words is left as it is. */
const isMeasured = ({ state, evidence }: Condition): boolean =>
  state !== "config_invalid" && (state !== "renewal_failed" || evidence.startsWith("the certificate expired "));

type Condition = Pick<FleetHealthRow["conditions"][number], "state" | "evidence">;

/** The evidence of a condition with seconds and bytes in units that are read at a glance: `7500 s` is `2 h 5 min`. */
export const evidenceParts = (condition: Condition): EvidencePart[] => {
  const { evidence } = condition;
  if (!isMeasured(condition)) return [{ text: evidence }];
  const parts: EvidencePart[] = [];
  let at = 0;
  for (const match of evidence.matchAll(amounts)) {
    const [exact, seconds, bytes, bytesMax] = match;
    const text =
      seconds !== undefined
        ? formatSpan(Number(seconds))
        : bytes !== undefined
          ? `${formatBytes(Number(bytes))} of ${formatBytes(Number(bytesMax))}`
          : formatCount(Number(exact));
    parts.push({ text: evidence.slice(at, match.index) }, text === exact ? { text } : { text, exact });
    at = match.index + exact.length;
  }
  return [...parts, { text: evidence.slice(at) }].filter(({ text }) => text !== "");
};
