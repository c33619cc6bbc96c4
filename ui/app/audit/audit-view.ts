import * as v from "valibot";
import { auditOutcomes } from "#proto/audit-event.ts";
import { addressFault, type QueryParams, withQuery } from "../browser/with-query.ts";
import { formatTimestamp, type TimeZone } from "../format/format.ts";

const Text = v.pipe(v.string(), v.minLength(1), v.maxLength(2048));
const Instant = v.pipe(v.string(), v.regex(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z$/));

/** The parameters of the API that may be given several times, and those that may be given once. */
const repeated = ["action", "not_action"];
const once = {
  actor: Text,
  not_actor: Text,
  target: Text,
  reason: Text,
  q: Text,
  since: Instant,
  until: Instant,
  outcome: v.picklist(auditOutcomes),
  within_seconds: v.pipe(v.string(), v.regex(/^[1-9]\d{0,8}$/)),
  cursor: v.string(),
};

/** The parameters in their order in an address. */
export const auditParameters = Object.fromEntries(
  [...repeated, ...Object.keys(once)].map((name) => [name, name]),
);

/** Returns the first parameter of an address that the page does not understand. */
export const auditFault = (search: string): string | undefined =>
  addressFault(search, { once, repeated });

/** Returns the address of events, by the parameters of the API. */
export const auditPath = (filter: QueryParams): string => withQuery("/changes/audit", filter);

/** Where the API has the events. */
export const eventsSource = "/api/core/audit-events";

/** Rows of a page. */
export const auditPageRows = 100;

/** Returns the API path of a page of events. */
export const eventsPath = (filter: QueryParams): string =>
  withQuery(eventsSource, { ...filter, limit: auditPageRows });

/** Returns the API path of an export of all events. */
export const auditExportPath = (format: "csv" | "jsonl", filter: QueryParams): string =>
  withQuery(`${eventsSource}/export.${format}`, { ...filter, cursor: null });

/** Returns a time as the field of a minute has it, `2026-11-22T16:45` in the zone; empty without one. */
export const minuteIn = (at: string | null, zone: TimeZone): string =>
  at === null ? "" : formatTimestamp(at, zone).slice(0, 16).replace(" ", "T");

/** Returns the instant of such a minute; null for an empty field. */
export const instantOf = (minute: string, zone: TimeZone): string | null => {
  if (minute === "") return null;
  const text = `${minute.slice(0, 16)}:00`;
  // Without a zone, a date and time is of the local one.
  return zone === "utc" ? `${text}Z` : new Date(text).toISOString().replace(".000Z", "Z");
};
