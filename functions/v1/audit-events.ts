import * as v from "valibot";
import type { ConfiguredCore, ReadCore } from "#functions/core.ts";
import {
  type AuditExport,
  type AuditQuery,
  browseAuditEvents,
  exportAuditEvents,
  type NamedAuditEvent,
} from "#functions/domain/audit/browse.ts";
import { auditChainStatus } from "#functions/domain/audit/chain.ts";
import { type CsvColumns, csvReply, csvTexts, csvType } from "#functions/http/csv.ts";
import { createDownloads, downloadName } from "#functions/http/download.ts";
import { resource, scope } from "#functions/http/resource.ts";
import { type Route, route, viewOf } from "#functions/http/route.ts";
import {
  AuditChainView,
  AuditEventPage,
  AuditEventView,
  auditOutcomes,
  NamedRecord,
  type RecordNames,
} from "#proto/audit-event.ts";
import { filterSecondsMax } from "#proto/fleet-health/vocabulary.ts";
import { DateFromTimestamp, Identifier, QueryInteger, Repeatable } from "#proto/values.ts";

/** The routes that read the audit log and the head of its hash chain. */
export const auditReports = (core: ReadCore) =>
  resource(core, "/v1/audit-events", ({ get, list }) => ({
    listAuditEvents: list(
      "",
      "The audit log, newest first; an event that was just written is not in the hash chain yet",
      {
        filter: auditFilterFields,
        returns: ["A page of events", AuditEventPage],
        find: (page, { query }) =>
          browseAuditEvents(core, auditQueryOf(query, core.clock.now()), page),
        view: auditEventView,
        furtherMembers: (events) => ({ names: recordNamesView(events) }),
      },
    ),

    getAuditChain: get(
      "/chain",
      "The head of the audit log's hash chain, and up to which event core has verified it",
      {
        returns: ["The state of the chain", AuditChainView],
        handle: async () => {
          const { head, pending, verification } = await auditChainStatus(core);
          const { faultKind: kind = null, faultSeq: seq = null } = verification ?? {};
          return chainView({
            head: head ?? null,
            pending,
            verified: verification && verification.seq > 0 ? verification : null,
            fault: kind !== null && seq !== null ? { kind, seq } : null,
          });
        },
      },
    ),
  }));

const targetOf = ({ names, targetId }: NamedAuditEvent) => names.find(({ id }) => id === targetId);

const columns: CsvColumns<NamedAuditEvent> = {
  seq: ({ link }) => link?.seq ?? null,
  occurred_at: ({ occurredAt }) => occurredAt.toISOString(),
  action: ({ action }) => action,
  outcome: ({ outcome }) => outcome,
  actor_type: ({ actorType }) => actorType,
  actor: ({ actorDisplay }) => actorDisplay,
  actor_id: ({ actorId }) => actorId,
  target_type: ({ targetType }) => targetType,
  target: (event) => targetOf(event)?.name ?? event.targetId,
  target_detail: (event) => targetOf(event)?.detail ?? null,
  target_id: ({ targetId }) => targetId,
  reason_code: ({ reasonCode }) => reasonCode,
  reason: ({ reason }) => reason,
  remote_addr: ({ remoteAddr }) => remoteAddr,
  request_id: ({ requestId }) => requestId,
  details: ({ details }) => JSON.stringify(details),
  id: ({ id }) => id,
  hash: ({ link }) => link?.hash.toHex() ?? null,
};

const linesOf = async function* (batches: AsyncIterable<readonly NamedAuditEvent[]>) {
  for await (const events of batches) {
    yield events
      .map(
        (event) =>
          `${JSON.stringify({ ...auditEventView(event), names: recordNamesView([event]) })}\n`,
      )
      .join("");
  }
};

const exportRoute = (
  core: ConfiguredCore,
  {
    format,
    operationId,
    summary,
  }: { format: AuditExport["format"]; operationId: string; summary: string },
): Route => {
  const download = createDownloads(core);
  return route({
    method: "GET",
    path: `/v1/audit-events/export.${format}`,
    operationId,
    summary,
    guard: scope(core, "audit"),
    query: v.strictObject(auditFilterFields),
    problems: ["too_many_exports"],
    replies: {
      200:
        format === "csv"
          ? csvReply
          : {
              description: "One event per line, as the list returns it, with its names",
              type: "text/x-ndjson",
            },
    },
    handle: ({ query: asked, caller, origin }) =>
      download(caller.userId, async () => {
        const batches = await exportAuditEvents(core, {
          query: auditQueryOf(asked, core.clock.now()),
          format,
          caller,
          origin,
          asked,
        });
        return {
          // Text, as CSV is: the generated client returns text/* as a string, and would parse application/jsonl as one value.
          type: format === "csv" ? csvType : "text/x-ndjson; charset=utf-8",
          fileName: downloadName("audit", asked, new Date(core.clock.now()), format),
          texts: format === "csv" ? csvTexts(columns, batches) : linesOf(batches),
        };
      }),
  });
};

/** `GET /v1/audit-events/export.csv`: streams every event of a filter, newest first; audited. */
export const auditCsvRoute = (core: ConfiguredCore) =>
  exportRoute(core, {
    format: "csv",
    operationId: "exportAuditEvents",
    summary: "All audit events under the list's filters as CSV, newest first",
  });

/** `GET /v1/audit-events/export.jsonl`: the same events as JSON lines, with the hashes of the chain. */
export const auditLinesRoute = (core: ConfiguredCore) =>
  exportRoute(core, {
    format: "jsonl",
    operationId: "exportAuditEventLines",
    summary: "All audit events under the list's filters as JSON lines, newest first",
  });

const chainView = viewOf(AuditChainView);
const eventViewOf = viewOf(AuditEventView);
const nameView = viewOf(NamedRecord);

/** Returns the view of an event. */
const auditEventView = (event: NamedAuditEvent): AuditEventView =>
  eventViewOf({
    ...event,
    ...(event.link ?? { seq: null, prevHash: null, hash: null }),
    actor: { type: event.actorType, id: event.actorId, display: event.actorDisplay },
    target: { type: event.targetType, id: event.targetId },
  });

/** Returns the names of the records to which events refer. */
const recordNamesView = (events: readonly NamedAuditEvent[]): RecordNames =>
  Object.fromEntries(
    events.flatMap(({ names }) => names.map((record) => [record.id, nameView(record)])),
  );

const Actions = Repeatable(Identifier(64), {
  expected: "must be an action",
  countMax: 64,
  tooMany: "must be given at most 64 times",
});

/** The query fields that select audit events; `action` and `not_action` are repeatable. */
const auditFilterFields = {
  action: v.optional(Actions),
  not_action: v.optional(Actions),
  actor: v.optional(Identifier(2048)),
  not_actor: v.optional(Identifier(2048)),
  target: v.optional(Identifier(2048)),
  outcome: v.optional(v.picklist(auditOutcomes, "must be success or failure")),
  reason: v.optional(Identifier(256)),
  within_seconds: v.optional(QueryInteger(1, filterSecondsMax)),
  older_than_seconds: v.optional(QueryInteger(1, filterSecondsMax)),
  since: v.optional(DateFromTimestamp),
  until: v.optional(DateFromTimestamp),
  q: v.optional(Identifier(256)),
};

/** Parsed query fields. */
type AuditFilterQuery = v.InferOutput<v.ObjectSchema<typeof auditFilterFields, undefined>>;

/** Returns the filter of parsed query fields at `now`. */
const auditQueryOf = (query: AuditFilterQuery, now: number): AuditQuery => {
  const { within_seconds: within, older_than_seconds: olderThan } = query;
  const ago = (seconds: number | undefined) =>
    seconds === undefined ? [] : [now - seconds * 1000];
  const starts = [...(query.since ? [query.since.getTime()] : []), ...ago(within)];
  const ends = [...(query.until ? [query.until.getTime()] : []), ...ago(olderThan)];
  const since = starts.length > 0 ? new Date(Math.max(...starts)) : undefined;
  const until = ends.length > 0 ? new Date(Math.min(...ends)) : undefined;
  return {
    actions: query.action && [...new Set(query.action)],
    notActions: query.not_action && [...new Set(query.not_action)],
    actor: query.actor,
    notActor: query.not_actor,
    target: query.target,
    outcome: query.outcome,
    reason: query.reason,
    since,
    until,
    text: query.q,
  };
};
