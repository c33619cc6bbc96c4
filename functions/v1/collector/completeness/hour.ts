import * as v from "valibot";
import { Problem } from "#functions/problems.ts";
import type { HourRange } from "#functions/store/completeness/report.ts";
import { QueryTime } from "#functions/v1/query-time.ts";
import { hourMs } from "#kit/clock.ts";
import type { HourNote } from "#proto/completeness/hour-note.ts";
import {
  reportHoursDefault,
  reportHoursMax,
  type ShortageView,
} from "#proto/completeness/report.ts";

/** The range of a report: whole hours that contain `from` and `to`; by default the last week. */
export const hourRangeFields = { from: v.optional(QueryTime), to: v.optional(QueryTime) };

/** Returns the whole hours of a range. Throws 422 `validation_failed` for none, or too many. */
export const hourRangeOf = (
  {
    from,
    to,
  }: { from?: ((now: number) => number) | undefined; to?: ((now: number) => number) | undefined },
  now: number,
): HourRange => {
  const toMs = Math.ceil((to?.(now) ?? now) / hourMs) * hourMs;
  const asked = from === undefined ? toMs - reportHoursDefault * hourMs : from(now);
  const fromMs = Math.floor(asked / hourMs) * hourMs;
  const hours = (toMs - fromMs) / hourMs;
  if (hours < 1)
    throw new Problem("validation_failed", {
      errors: [{ path: "from", message: "must be before to" }],
    });
  if (hours > reportHoursMax)
    throw new Problem("validation_failed", {
      errors: [{ path: "from", message: `must be at most ${reportHoursMax / 24} days before to` }],
    });
  return { fromMs, toMs };
};

/** Returns the views of what an hour lacks. */
export const shortageViews = (note: HourNote | undefined): ShortageView[] =>
  (note?.shortages ?? []).map(({ kind, count, reason }) => ({
    kind,
    count,
    ...(reason === undefined ? {} : { reason }),
  }));
