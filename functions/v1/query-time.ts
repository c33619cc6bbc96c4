import * as v from "valibot";
import { parseDuration } from "#proto/fleet-health/query-language/quantities.ts";
import { parseTimestamp } from "#proto/values.ts";

/** A time in a query: in UTC, or relative to now. */
export const QueryTime = v.pipe(
  v.string("must be given once"),
  v.rawTransform(({ dataset: { value }, addIssue, NEVER }): TimeAt => {
    const at = timeAt(value);
    if (at !== undefined) return at;
    addIssue({
      message: "must be a time in UTC, such as 2026-01-31T08:00:00Z, or how long ago, such as 2h",
    });
    return NEVER;
  }),
);

/** Returns a time in milliseconds at `now`. */
type TimeAt = (now: number) => number;

/** Parses a time in UTC, such as `2026-01-31T08:00:00Z`, or how long ago it is, such as `2h`; undefined for other text. */
export const timeAt = (text: string): TimeAt | undefined => {
  const ago = parseDuration(text);
  if (ago !== undefined) return (now) => now - ago * 1000;
  const at = parseTimestamp(text);
  return at === undefined ? undefined : () => at;
};
