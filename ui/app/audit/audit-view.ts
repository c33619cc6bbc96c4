import { auditOutcomes } from "../../../proto/audit-event.ts";
import { withQuery } from "../browser/with-query.ts";
import { formatTimestamp, type TimeZone } from "../format/format.ts";

/** The state of `/audit` that its address holds. Its filters are the parameters of the API. */
export interface AuditView {
  readonly actions: readonly string[];
  /** Events of these actions are left out. */
  readonly notActions?: readonly string[];
  readonly actor?: string;
  readonly notActor?: string;
  readonly target?: string;
  readonly outcome?: (typeof auditOutcomes)[number];
  /** Exactly this reason. */
  readonly reason?: string;
  /** Events of the last seconds before the request. */
  readonly withinSeconds?: number;
  /** RFC 3339. */
  readonly since?: string;
  readonly until?: string;
  readonly text?: string;
  readonly cursor?: string;
}

/** A parameter of an address that the page does not understand. */
export interface ViewFault {
  parameter: string;
}

const textParameters = {
  actor: "actor",
  not_actor: "notActor",
  target: "target",
  reason: "reason",
  q: "text",
  since: "since",
  until: "until",
} as const;
const known = new Set([
  ...Object.keys(textParameters),
  "action",
  "not_action",
  "outcome",
  "within_seconds",
  "cursor",
  "chat",
]);
const instant = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z$/;

/** Parses the view of an address. A parameter that is unknown, repeated or invalid is a fault: a mangled link never shows other events. */
export const parseAuditView = (search: string): AuditView | ViewFault => {
  const params = new URLSearchParams(search);
  for (const parameter of new Set(params.keys())) {
    if (!known.has(parameter)) return { parameter };
    if (parameter !== "action" && parameter !== "not_action" && params.getAll(parameter).length > 1)
      return { parameter };
  }
  const texts: Record<string, string> = {};
  for (const [parameter, name] of Object.entries(textParameters)) {
    const text = params.get(parameter);
    if (text === null) continue;
    if (text === "" || text.length > 2048) return { parameter };
    if ((name === "since" || name === "until") && !instant.test(text)) return { parameter };
    texts[name] = text;
  }
  const outcome = params.get("outcome");
  const knownOutcome = auditOutcomes.find((one) => one === outcome);
  if (outcome !== null && knownOutcome === undefined) return { parameter: "outcome" };
  const within = params.get("within_seconds");
  if (within !== null && !/^[1-9]\d{0,8}$/.test(within)) return { parameter: "within_seconds" };
  const cursor = params.get("cursor");
  return {
    actions: [...new Set(params.getAll("action"))],
    ...(params.has("not_action") ? { notActions: [...new Set(params.getAll("not_action"))] } : {}),
    ...texts,
    ...(knownOutcome === undefined ? {} : { outcome: knownOutcome }),
    ...(within === null ? {} : { withinSeconds: Number(within) }),
    ...(cursor === null ? {} : { cursor }),
  };
};

const filterParams = (view: AuditView): URLSearchParams => {
  const params = new URLSearchParams(view.actions.map((action) => ["action", action]));
  for (const action of view.notActions ?? []) params.append("not_action", action);
  for (const [parameter, name] of Object.entries(textParameters)) {
    const text = view[name];
    if (text !== undefined) params.set(parameter, text);
  }
  if (view.outcome !== undefined) params.set("outcome", view.outcome);
  if (view.withinSeconds !== undefined) params.set("within_seconds", String(view.withinSeconds));
  return params;
};

/** Returns the address of a view; `parseAuditView` is its inverse. */
export const auditPath = (view: Partial<AuditView>): string => {
  const params = filterParams({ actions: [], ...view });
  if (view.cursor !== undefined) params.set("cursor", view.cursor);
  return withQuery("/audit", params);
};

/** Rows of a page. */
export const auditPageRows = 100;

/** Returns the API path of the page of events that a view shows. */
export const eventsPath = (view: AuditView): string => {
  const params = filterParams(view);
  params.set("limit", String(auditPageRows));
  if (view.cursor !== undefined) params.set("cursor", view.cursor);
  return withQuery("/api/core/audit-events", params);
};

/** Returns the API path of an export of all events of a view. */
export const auditExportPath = (format: "csv" | "jsonl", view: AuditView): string =>
  withQuery(`/api/core/audit-events/export.${format}`, filterParams(view));

/** Returns the first page of a view with a change; an undefined part is removed. */
export const changeView = (
  { cursor: _, ...view }: AuditView,
  change: { readonly [Part in keyof AuditView]?: AuditView[Part] | undefined },
): AuditView =>
  Object.fromEntries(
    Object.entries({ ...view, ...change }).filter(([, value]) => value !== undefined),
  ) as unknown as AuditView;

/** Returns a time as the field of a minute has it, `2026-11-22T16:45` in the zone; empty without one. */
export const minuteIn = (at: string | undefined, zone: TimeZone): string =>
  at === undefined ? "" : formatTimestamp(at, zone).slice(0, 16).replace(" ", "T");

/** Returns the instant of such a minute; undefined for an empty field. */
export const instantOf = (minute: string, zone: TimeZone): string | undefined => {
  if (minute === "") return undefined;
  const text = `${minute.slice(0, 16)}:00`;
  // Without a zone, a date and time is of the local one.
  return zone === "utc" ? `${text}Z` : new Date(text).toISOString().replace(".000Z", "Z");
};
