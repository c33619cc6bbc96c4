import type { FleetHealthRow } from "../../../proto/fleet-health/row.ts";
import { formatBytes, formatCount, formatDuration } from "./format.ts";

/** A piece of evidence; `exact` is core's own text, where it differs. */
export interface EvidencePart {
  text: string;
  exact?: string;
}

type Condition = Pick<FleetHealthRow["conditions"][number], "state" | "evidence">;

const amounts = /(\d+) s\b|(\d+) of (\d+) bytes|\d{4,}(?= (?:dropped|dead letters|lost)\b)/g;

/** Whether core measured the evidence; a host's own words are left unchanged. */
const isMeasured = ({ state, evidence }: Condition): boolean =>
  state !== "config_invalid" &&
  (state !== "renewal_failed" || evidence.startsWith("the certificate expired "));

/** Returns the evidence of a condition with seconds and bytes in larger units: `7500 s` is `2 h 5 min`. */
export const evidenceParts = (condition: Condition): EvidencePart[] => {
  const { evidence } = condition;
  if (!isMeasured(condition)) return [{ text: evidence }];
  const parts: EvidencePart[] = [];
  let at = 0;
  for (const match of evidence.matchAll(amounts)) {
    const [exact, seconds, bytes, bytesMax] = match;
    const text =
      seconds !== undefined
        ? formatDuration(Number(seconds))
        : bytes !== undefined
          ? `${formatBytes(Number(bytes))} of ${formatBytes(Number(bytesMax))}`
          : formatCount(Number(exact));
    parts.push(
      { text: evidence.slice(at, match.index) },
      text === exact ? { text } : { text, exact },
    );
    at = match.index + exact.length;
  }
  return [...parts, { text: evidence.slice(at) }].filter(({ text }) => text !== "");
};
