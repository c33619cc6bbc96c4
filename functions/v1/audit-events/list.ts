import * as v from "valibot";
import { AuditEventPage, type AuditEventView } from "../../../proto/audit-event.ts";
import { Identifier, parseTimestamp, Timestamp } from "../../../proto/management/text.ts";
import type { Core } from "../../core.ts";
import { browseAuditEvents } from "../../domain/audit/audit-log.ts";
import { scope } from "../../http/guards.ts";
import { createList, listFields } from "../../http/list.ts";
import { route } from "../../http/route.ts";
import type { AuditFilter, ListedAuditEvent } from "../../store/audit.ts";

const at = v.pipe(
  Timestamp,
  v.transform((text) => new Date(parseTimestamp(text) ?? 0)),
);

const Query = v.strictObject({
  action: v.optional(Identifier(64)),
  actor: v.optional(Identifier(2048)),
  target_id: v.optional(Identifier(64)),
  since: v.optional(at),
  until: v.optional(at),
  ...listFields,
});

const filterOf = ({ action, actor, target_id, since, until }: v.InferOutput<typeof Query>): AuditFilter => ({
  ...(action ? { action } : {}),
  ...(actor ? { actor } : {}),
  ...(target_id ? { targetId: target_id } : {}),
  ...(since ? { since } : {}),
  ...(until ? { until } : {}),
});

const view = (event: ListedAuditEvent): AuditEventView => ({
  id: event.id,
  seq: event.link?.seq ?? null,
  occurred_at: event.occurredAt.toISOString(),
  actor: { type: event.actorType, id: event.actorId, display: event.actorDisplay },
  action: event.action,
  target: { type: event.targetType, id: event.targetId },
  outcome: event.outcome,
  reason_code: event.reasonCode,
  reason: event.reason,
  remote_addr: event.remoteAddr,
  request_id: event.requestId,
  details: event.details,
  prev_hash: event.link?.prevHash.toHex() ?? null,
  hash: event.link?.hash.toHex() ?? null,
});

/** `GET /v1/audit-events`: the audit log, newest first. */
export const listAuditEventsRoute = (core: Pick<Core, "config" | "db" | "clock">) => {
  const list = createList(core.config, "audit-events");
  return route({
    method: "GET",
    path: "/v1/audit-events",
    operationId: "listAuditEvents",
    summary: "The audit log, newest first; an event that was just written is not in the hash chain yet",
    guard: scope(core, "audit"),
    query: Query,
    replies: { 200: { description: "A page of events", schema: AuditEventPage } },
    handle: ({ query }) => list(query, (page) => browseAuditEvents(core, filterOf(query), page), view),
  });
};
