import * as v from "valibot";
import { Identifier, parseTimestamp, Timestamp } from "../../../proto/management/text.ts";
import { Id, IsoTimestamp } from "../../../proto/values.ts";
import type { Core } from "../../core.ts";
import { browseAuditEvents } from "../../domain/audit/audit-log.ts";
import { scope } from "../../http/guards.ts";
import { createList, ListView, listFields } from "../../http/list.ts";
import { route } from "../../http/route.ts";
import type { AuditFilter, ListedAuditEvent } from "../../store/audit.ts";

const TextOrNull = v.nullable(v.string());

const AuditEventView = v.strictObject({
  id: Id,
  seq: v.nullable(v.number()),
  occurred_at: IsoTimestamp,
  actor: v.strictObject({ type: v.picklist(["operator", "collector", "system"]), id: v.string(), display: v.string() }),
  action: v.string(),
  target: v.strictObject({ type: v.string(), id: v.string() }),
  outcome: v.picklist(["success", "failure"]),
  reason_code: TextOrNull,
  reason: TextOrNull,
  remote_addr: TextOrNull,
  request_id: TextOrNull,
  details: v.record(v.string(), v.unknown()),
  prev_hash: TextOrNull,
  hash: TextOrNull,
});

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

const view = (event: ListedAuditEvent): v.InferOutput<typeof AuditEventView> => ({
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
    replies: { 200: { description: "A page of events", schema: ListView(AuditEventView) } },
    handle: ({ query }) => list(query, (page) => browseAuditEvents(core, filterOf(query), page), view),
  });
};
