import * as v from "valibot";
import { type TimeAt, timeAt } from "#proto/telemetry/time-at.ts";

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
