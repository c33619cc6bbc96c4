import type { AuditEventView, RecordNames } from "../../../proto/audit-event.ts";
import type { NamedAuditEvent } from "../../domain/audit/browse.ts";

/** Returns the view of an event. */
export const auditEventView = (event: NamedAuditEvent): AuditEventView => ({
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

/** Returns the names of the records to which events refer. */
export const recordNamesView = (events: readonly NamedAuditEvent[]): RecordNames =>
  Object.fromEntries(
    events.flatMap(({ names }) =>
      names.map(({ id, type, name, detail, identityId }) => [id, { type, name, detail, identity_id: identityId }]),
    ),
  );
