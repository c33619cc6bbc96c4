import { type QueryParams, withQuery } from "../browser/with-query.ts";
import { formatTimestamp, type TimeZone } from "../format/format.ts";

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
