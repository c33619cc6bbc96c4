import * as v from "valibot";
import type { ConfiguredCore, ReadCore } from "#functions/core.ts";
import type { RequestedExport } from "#functions/domain/audit/audited-export.ts";
import {
  type AuditQuery,
  browseAuditEvents,
  exportAuditEvents,
  type NamedAuditEvent,
} from "#functions/domain/audit/browse.ts";
import { auditChainStatus } from "#functions/domain/audit/chain.ts";
import { type CsvColumns, csvRoute } from "#functions/http/csv.ts";
import { downloadRoute, jsonLines } from "#functions/http/download.ts";
import { resource, scope } from "#functions/http/resource.ts";
import { viewOf } from "#functions/http/route.ts";
import type { ValuesOf } from "#kit/env.ts";
import { changeActions } from "#proto/audit-actions.ts";
import {
  AuditChainView,
  AuditEventPage,
  AuditEventView,
  auditActors,
  auditOutcomes,
  NamedRecord,
  type RecordNames,
} from "#proto/audit-event.ts";
import { filterSecondsMax } from "#proto/fleet-health/vocabulary.ts";
import {
  DateFromTimestamp,
  Identifier,
  inCamelCase,
  QueryInteger,
  Repeatable,
} from "#proto/values.ts";

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

type AuditRequest = Parameters<typeof exportAuditEvents>[1];

const openExport = (
  core: ConfiguredCore,
  format: AuditRequest["format"],
  query: AuditFilterQuery,
  audit: RequestedExport,
) => exportAuditEvents(core, { query: auditQueryOf(query, core.clock.now()), format, ...audit });

/** `GET /v1/audit-events/export.csv`: streams every event of a filter, newest first; audited. */
export const auditCsvRoute = (core: ConfiguredCore) =>
  csvRoute(core, {
    path: "/v1/audit-events/export.csv",
    operationId: "exportAuditEvents",
    summary: "All audit events under the list's filters as CSV, newest first",
    query: v.strictObject(auditFilterFields),
    open: async ({ query }, audit) => ({
      name: "audit",
      columns,
      batches: await openExport(core, "csv", query, audit),
    }),
  });

/** `GET /v1/audit-events/export.jsonl`: the same events as JSON lines, with the hashes of the chain. */
export const auditLinesRoute = (core: ConfiguredCore) =>
  downloadRoute(core, {
    path: "/v1/audit-events/export.jsonl",
    operationId: "exportAuditEventLines",
    summary: "All audit events under the list's filters as JSON lines, newest first",
    guard: scope(core, "audit"),
    query: v.strictObject(auditFilterFields),
    file: {
      ...jsonLines,
      description: "One event per line, as the list returns it, with its names",
    },
    open: async ({ query }, audit) => ({
      name: "audit",
      texts: linesOf(await openExport(core, "jsonl", query, audit)),
    }),
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
  by: v.optional(v.picklist(auditActors, "must be people or machines")),
  kind: v.optional(v.picklist(["change"], "must be change")),
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
type AuditFilterQuery = ValuesOf<typeof auditFilterFields>;

/** Returns the filter of parsed query fields at `now`. */
const auditQueryOf = (query: AuditFilterQuery, now: number): AuditQuery => {
  const { action, notAction, kind, withinSeconds, olderThanSeconds, since, until, q, ...filter } =
    inCamelCase(query);
  const ago = (seconds: number | undefined) =>
    seconds === undefined ? [] : [now - seconds * 1000];
  const starts = [...(since ? [since.getTime()] : []), ...ago(withinSeconds)];
  const ends = [...(until ? [until.getTime()] : []), ...ago(olderThanSeconds)];
  return {
    ...filter,
    actions: kind
      ? changeActions.filter((one) => action?.includes(one) ?? true)
      : action && [...new Set(action)],
    notActions: notAction && [...new Set(notAction)],
    since: starts.length > 0 ? new Date(Math.max(...starts)) : undefined,
    until: ends.length > 0 ? new Date(Math.min(...ends)) : undefined,
    text: q,
  };
};
