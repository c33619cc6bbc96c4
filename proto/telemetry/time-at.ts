import { parseDuration } from "../fleet-health/query-language/quantities.ts";
import { parseTimestamp } from "../values.ts";

/** Returns a time in milliseconds at `now`. */
export type TimeAt = (now: number) => number;

/** Parses a time in UTC, such as `2026-01-31T08:00:00Z`, or how long ago it is, such as `2h`; undefined for other text. */
export const timeAt = (text: string): TimeAt | undefined => {
  const ago = parseDuration(text);
  if (ago !== undefined) return (now) => now - ago * 1000;
  const at = parseTimestamp(text);
  return at === undefined ? undefined : () => at;
};
