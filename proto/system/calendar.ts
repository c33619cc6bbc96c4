import * as v from "valibot";
import { IsoTimestamp, TextOrNull, TimestampOrNull } from "../values.ts";
import { type Ending, endings } from "./credentials.ts";

/** A credential of this installation, or one of its certificates. */
export const CalendarEntry = v.strictObject({
  /** As in `core_certificate_expiry_timestamp_seconds`. */
  name: v.string(),
  what: v.string(),
  /** The subject of the certificate; null for anything else. */
  subject: TextOrNull,
  /** Who has it: cores by their machines, or a program. */
  of: v.array(v.string()),
  /** Null: `ending` says why. */
  ends_at: TimestampOrNull,
  ending: v.picklist(endings),
  /** When the newest of its files was written, as core sees it; null where it is not known. */
  changed_at: TimestampOrNull,
  /** As `GET /v1/system` says: `warning` from 30 days before its end (`ingest_server`: 7), `not_ready` on the last day of what stops with it. */
  state: v.picklist(["ready", "warning", "not_ready"]),
  /** Where its end is seen. */
  seen_by: v.string(),
  change: v.string(),
  /** The page and section that describe the change. */
  docs: v.string(),
  /** What a host needs that was away meanwhile. */
  away: v.string(),
});

/** A credential of this installation, or one of its certificates. */
export type CalendarEntry = v.InferOutput<typeof CalendarEntry>;

/** Response of `GET /v1/system/calendar` (docs/rotate.md). */
export const SystemCalendar = v.strictObject({
  generated_at: IsoTimestamp,
  /** What ends next comes first; what has no known end, last. */
  items: v.array(CalendarEntry),
});

/** Response of `GET /v1/system/calendar`. */
export type SystemCalendar = v.InferOutput<typeof SystemCalendar>;

/** What stands in place of the end of an entry without one. */
export const withoutEnd: Readonly<Record<Ending, string>> = {
  chain: "states no end",
  bundle: "states no end",
  token: "states no end",
  role: "no end",
  issuer: "its issuer knows",
  none: "no end",
};
